//! The store on a real file system, against the in-memory store as a model.
