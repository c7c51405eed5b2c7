//! Process trees on this machine: who belongs to one, how its end is seen, asked for and proved. Piped processes and
//! terminals are both trees; what differs between them is how they are started and where their bytes go.

pub(in crate::local) mod bonds;
pub(in crate::local) mod contained;
pub(in crate::local) mod control;
pub(in crate::local) mod exit_watch;
mod group;
pub(in crate::local) mod ladder;
mod looks;
mod observation;
pub(in crate::local) mod registry;
mod signals;
pub(in crate::local) mod supervisor;
pub(in crate::local) mod table;
mod tree;
pub(in crate::local) mod usage;
pub(in crate::local) mod view;

pub(in crate::local) use self::table::start_time;
