//! What goes into the next batch of one model version, and what is refused.

pub mod cost;
pub mod floor;
pub mod forecast;
pub mod index;
pub mod key;
pub mod learned;
pub mod mix;
pub mod placement;
pub mod policy;
pub mod quantum;
pub mod select;
pub mod settings;
pub mod shadow;
pub mod shed;
