//! Both protocols of SQS.
