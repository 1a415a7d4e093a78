//! What goes into the next batch of one model version, and what is refused.

pub mod alone;
pub mod bars;
pub mod cost;
pub mod floor;
pub mod forecast;
pub mod gather;
pub mod index;
pub mod key;
pub mod load;
pub mod mix;
pub mod policy;
pub mod price;
pub mod quantum;
pub mod queue;
pub mod select;
pub mod settings;
pub mod shadow;
pub mod shed;
pub mod strictness;
pub mod waiting;
