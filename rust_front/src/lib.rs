//! Headway's native transport: a gRPC server whose HTTP/2 runs outside Python.
//!
//! Calls of one request become [`Event`]s that a host takes from a queue and answers by number.
//! Calls of many requests go on to a server behind it ([`hop`]). What a connection, a call or a
//! message may cost is bounded by [`Limits`]. Nothing here knows Python.

mod answer;
mod call;
mod connection;
mod front;
mod hop;
mod keeper;
mod limits;
mod message;
mod metadata;
mod status;
mod table;
mod watched;
mod windows;

pub use front::{Front, Method};
pub use limits::{Counts, Limits, Refusals};
pub use metadata::{from_pairs, pairs, Value};
pub use status::Status;
pub use table::{Event, Sent};
