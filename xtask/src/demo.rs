//! placeholder
use std::path::Path;
use anyhow::Result;
/// x
pub fn run() -> Result<()> { Ok(()) }
/// x
pub fn show(_binary: &Path) -> Result<()> { Ok(()) }
