//! The faces' side of an attachment: finding or starting the daemon, the hello, and the byte relay.

pub(crate) mod alone;
pub(crate) mod attach;
pub(crate) mod client;
pub(crate) mod relay;
pub(crate) mod shim;

pub(crate) use attach::{AttachError, Attachment, How};
