//! The system call in which a thread sleeps, as `/proc` tells it. Pure. Owns the numbers of the calls that wait for
//! input: they differ between architectures, and a number of another one must never be taken for one of these.

/// An architecture whose calls are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Architecture {
    X86_64,
    Arm64,
}

/// A call that waits for something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// A read of one descriptor.
    Read { descriptor: u32 },
    /// A wait for a set of the first `count` descriptors, the bits of which are at this address.
    Select { count: u32, address: u64 },
    /// A wait for a list of `count` entries at this address.
    Poll { count: u32, address: u64 },
    /// A wait for all that this descriptor watches.
    Epoll { descriptor: u32 },
}

/// How many bytes of a program file tell its architecture (elf(5)).
pub(super) const ELF_HEAD_BYTES: usize = 20;

/// How many fields a sleeping thread's line has: the number, six arguments, the stack pointer and the program counter.
const FIELDS: usize = 9;

impl Architecture {
    /// The one of this build; `None` where the calls are not known.
    pub(super) const OWN: Option<Self> = if cfg!(target_arch = "x86_64") {
        Some(Self::X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(Self::Arm64)
    } else {
        None
    };

    /// Whether a program file that begins with these bytes is of this architecture: 64 bits, little-endian, its machine.
    pub(super) fn runs(self, head: &[u8; ELF_HEAD_BYTES]) -> bool {
        let machine: u16 = match self {
            Self::X86_64 => 62,
            Self::Arm64 => 183,
        };
        head.starts_with(b"\x7fELF\x02\x01") && head[18..20] == machine.to_le_bytes()
    }

    /// The wait of a call by its number and its first two arguments. The kernel takes descriptors and counts from the low
    /// half of an argument.
    fn wait(self, number: u32, first: u64, second: u64) -> Option<Wait> {
        let low = first as u32;
        let read = Wait::Read { descriptor: low };
        let select = Wait::Select {
            count: low,
            address: second,
        };
        let poll = Wait::Poll {
            count: second as u32,
            address: first,
        };
        let epoll = Wait::Epoll { descriptor: low };
        match (self, number) {
            // read, readv
            (Self::X86_64, 0 | 19) | (Self::Arm64, 63 | 65) => Some(read),
            // select, pselect6
            (Self::X86_64, 23 | 270) | (Self::Arm64, 72) => Some(select),
            // poll, ppoll
            (Self::X86_64, 7 | 271) | (Self::Arm64, 73) => Some(poll),
            // epoll_wait, epoll_pwait, epoll_pwait2
            (Self::X86_64, 232 | 281 | 441) | (Self::Arm64, 22 | 441) => Some(epoll),
            _ => None,
        }
    }
}

/// What a thread waits for by the line of `/proc/PID/task/TID/syscall`; `None` for every other call, for a thread that
/// runs, and for a line of another shape.
pub(super) fn parse(line: &[u8], architecture: Architecture) -> Option<Wait> {
    let line = std::str::from_utf8(line).ok()?;
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if fields.len() != FIELDS {
        return None;
    }
    let number = fields[0].parse().ok()?;
    architecture.wait(number, hexadecimal(fields[1])?, hexadecimal(fields[2])?)
}

fn hexadecimal(field: &str) -> Option<u64> {
    let digits = field.strip_prefix("0x")?;
    // A sign would be accepted by the parser of numbers.
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Whether a thread sleeps, by its `/proc/PID/task/TID/stat`: it neither runs nor is stopped. The name stands in
/// parentheses and can hold any byte.
pub(super) fn sleeps(stat: &[u8]) -> bool {
    let after_name = stat.iter().rposition(|byte| *byte == b')');
    after_name.is_some_and(|at| stat[at + 1..].starts_with(b" S "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(number: i64, first: u64, second: u64) -> Vec<u8> {
        format!("{number} {first:#x} {second:#x} 0x1 0x0 0x0 0x0 0x7ffe 0x7f1c\n").into_bytes()
    }

    #[test]
    fn each_architecture_has_numbers_of_its_own() {
        let read = Some(Wait::Read { descriptor: 3 });
        assert_eq!(parse(&line(0, 3, 9), Architecture::X86_64), read);
        assert_eq!(parse(&line(63, 3, 9), Architecture::Arm64), read);
        assert_eq!(parse(&line(63, 3, 9), Architecture::X86_64), None);
        assert_eq!(parse(&line(0, 3, 9), Architecture::Arm64), None);
    }

    #[test]
    fn sets_lists_and_watches_are_told_apart() {
        let select = Some(Wait::Select {
            count: 3,
            address: 9,
        });
        let poll = Some(Wait::Poll {
            count: 9,
            address: 3,
        });
        let epoll = Some(Wait::Epoll { descriptor: 3 });
        for (architecture, number, wait) in [
            (Architecture::X86_64, 23, select),
            (Architecture::X86_64, 270, select),
            (Architecture::Arm64, 72, select),
            (Architecture::X86_64, 7, poll),
            (Architecture::X86_64, 271, poll),
            (Architecture::Arm64, 73, poll),
            (Architecture::X86_64, 232, epoll),
            (Architecture::X86_64, 281, epoll),
            (Architecture::Arm64, 22, epoll),
        ] {
            assert_eq!(parse(&line(number, 3, 9), architecture), wait, "{number}");
        }
    }

    #[test]
    fn what_is_not_a_wait_or_has_another_shape_is_none() {
        for text in [
            "running\n",
            "-1 0x7ffe 0x7f1c\n",
            "",
            "0",
            "0 0x0",
            "0 3 0x9 0x1 0x0 0x0 0x0 0x7ffe 0x7f1c",
            "0 0x+3 0x9 0x1 0x0 0x0 0x0 0x7ffe 0x7f1c",
            "0 0x3 0x9 0x1 0x0 0x0 0x0 0x7ffe 0x7f1c 0x1",
            "202 0x3 0x9 0x1 0x0 0x0 0x0 0x7ffe 0x7f1c",
        ] {
            assert_eq!(parse(text.as_bytes(), Architecture::X86_64), None, "{text}");
        }
    }

    #[test]
    fn only_a_thread_that_sleeps_does() {
        assert!(sleeps(b"5 (a) R b) S 1 2"));
        assert!(!sleeps(b"5 (a S b) T 1 2"));
        assert!(!sleeps(b"5 (a) R 1 S "));
        assert!(!sleeps(b""));
    }

    #[test]
    fn a_program_of_another_width_or_machine_is_not_native() {
        let head = |class, machine| {
            let mut head = [0; ELF_HEAD_BYTES];
            head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
            head[18] = machine;
            head
        };
        assert!(Architecture::X86_64.runs(&head(2, 62)));
        assert!(Architecture::Arm64.runs(&head(2, 183)));
        assert!(!Architecture::X86_64.runs(&head(1, 62)));
        assert!(!Architecture::X86_64.runs(&head(2, 183)));
        assert!(!Architecture::X86_64.runs(&[0; ELF_HEAD_BYTES]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let _ = (parse(&bytes, Architecture::X86_64), parse(&bytes, Architecture::Arm64), sleeps(&bytes));
        }

        #[test]
        fn a_read_gives_the_low_half_of_its_argument(descriptor: u32, high: u32, second: u64) {
            let first = u64::from(high) << 32 | u64::from(descriptor);
            prop_assert_eq!(
                parse(&line(0, first, second), Architecture::X86_64),
                Some(Wait::Read { descriptor })
            );
        }

        #[test]
        fn a_negative_number_is_no_call(number in i64::MIN..0, first: u64, second: u64) {
            prop_assert_eq!(parse(&line(number, first, second), Architecture::X86_64), None);
        }
    }
}
