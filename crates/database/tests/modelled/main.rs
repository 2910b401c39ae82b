//! A database on modelled clouds in virtual time. One program, since each would be linked with all.

mod costs;
mod curator;
mod encryption;
mod expiry;
mod fresh;
mod hint;
mod indexes;
mod leaves;
mod loading;
mod protocol;
mod readers;
mod scans;
mod stage;
mod timed;
mod vacuum;
