//! The properties that the fuzz targets try to break.

use lspool_pool as pool;

pub mod properties;
