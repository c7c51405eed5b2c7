//! The descriptors of a child. Owns the rule that it gets its three streams and no other: all that this program opens is
//! closed at an exec already, and this marks what the program itself was given by whoever started it.

/// Marks every descriptor from 3 upwards to be closed at an exec (`close_range(2)`, Linux 5.11). Called when a provider
/// is made; a descriptor that is marked already stays as it is.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the call has no safe form")]
pub(in crate::local) fn keep_from_children() {
    use nix::libc::{CLOSE_RANGE_CLOEXEC, SYS_close_range, syscall};
    // SAFETY: plain integers. With this flag nothing is closed: every descriptor stays valid for whoever owns it.
    let outcome = unsafe { syscall(SYS_close_range, 3_u32, u32::MAX, CLOSE_RANGE_CLOEXEC) };
    if outcome != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "children may get descriptors that this program was started with");
    }
}

/// There is no such call here.
#[cfg(not(target_os = "linux"))]
pub(in crate::local) fn keep_from_children() {}
