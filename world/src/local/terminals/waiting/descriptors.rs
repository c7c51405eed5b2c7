//! The descriptors for which a call waits, as they lie in memory and in fdinfo. Pure. Owns the layouts of select(2),
//! poll(2) and of an epoll descriptor's fdinfo; what does not have its layout names no descriptor.

/// The size of an entry of a poll list: a descriptor of four bytes, two bytes of wanted events, two of given ones.
pub(super) const POLL_ENTRY_BYTES: usize = 8;

/// POLLIN and POLLRDNORM, which are also the bits of EPOLLIN and EPOLLRDNORM.
const READABLE: u32 = 0x001 | 0x040;

/// The size of the words of a descriptor set.
const WORD_BYTES: usize = 8;

/// A descriptor that is watched for something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) descriptor: u32,
    /// The file that was watched; the descriptor may be another one by now.
    pub(super) inode: u64,
}

/// The size of the set of the first `count` descriptors: whole words.
pub(super) fn set_bytes(count: u32) -> usize {
    (count as usize).div_ceil(WORD_BYTES * 8) * WORD_BYTES
}

/// The descriptors in a set, of the first `count`. On a little-endian machine the bits of its words follow each other as
/// those of its bytes.
pub(super) fn in_set(set: &[u8], count: u32) -> impl Iterator<Item = u32> {
    (0..count).filter(|number| {
        let byte = set.get((number / 8) as usize);
        byte.is_some_and(|byte| byte & (1 << (number % 8)) != 0)
    })
}

/// The descriptors in a poll list that are to be readable. An entry with a negative descriptor is left out, as poll does.
pub(super) fn in_poll_list(list: &[u8]) -> impl Iterator<Item = u32> {
    list.as_chunks::<POLL_ENTRY_BYTES>()
        .0
        .iter()
        .filter_map(|entry| {
            let descriptor = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let events = u16::from_ne_bytes([entry[4], entry[5]]);
            let is_wanted = u32::from(events) & READABLE != 0;
            u32::try_from(descriptor).ok().filter(|_| is_wanted)
        })
}

/// The descriptors that an epoll descriptor watches for something to read.
pub(super) fn in_epoll(information: &[u8]) -> impl Iterator<Item = Watched> {
    information
        .split(|byte| *byte == b'\n')
        .filter_map(|line| watched(std::str::from_utf8(line).ok()?))
}

/// One line, `tfd: 5 events: 19 data: ff pos:0 ino:61 sdev:5`, the values but the first in hexadecimal.
fn watched(line: &str) -> Option<Watched> {
    let mut fields = line.split_ascii_whitespace();
    if fields.next()? != "tfd:" {
        return None;
    }
    let descriptor = fields.next()?.parse().ok()?;
    if fields.next()? != "events:" {
        return None;
    }
    let events = u32::from_str_radix(fields.next()?, 16).ok()?;
    let inode = fields.find_map(|field| field.strip_prefix("ino:"))?;
    let inode = u64::from_str_radix(inode, 16).ok()?;
    (events & READABLE != 0).then_some(Watched { descriptor, inode })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(descriptor: i32, events: u16) -> Vec<u8> {
        [
            &descriptor.to_ne_bytes()[..],
            &events.to_ne_bytes(),
            &[0; 2],
        ]
        .concat()
    }

    #[test]
    fn a_poll_list_gives_those_that_are_to_be_readable() {
        let list = [entry(3, 1), entry(4, 4), entry(-1, 1), entry(0, 0x40)].concat();
        assert_eq!(in_poll_list(&list).collect::<Vec<_>>(), [3, 0]);
        assert_eq!(in_poll_list(&list[..7]).count(), 0);
    }

    #[test]
    fn an_epoll_gives_those_that_are_to_be_readable_with_their_files() {
        let information = b"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t61\n\
            tfd:        0 events:       19 data:                0  pos:0 ino:2a sdev:16\n\
            tfd:        7 events: 40000018 data:                7  pos:0 ino:2b sdev:16\n\
            tfd:        x events:       19 data:                0  pos:0 ino:2a sdev:16\n\
            tfd:        9 events:       19 data:                0\n";
        let watched = Watched {
            descriptor: 0,
            inode: 0x2a,
        };
        assert_eq!(in_epoll(information).collect::<Vec<_>>(), [watched]);
    }

    proptest! {
        #[test]
        fn a_set_gives_exactly_its_members(members in proptest::collection::btree_set(0u32..300, 0..20), count in 0u32..300) {
            let mut set = vec![0; set_bytes(count)];
            for member in &members {
                if let Some(byte) = set.get_mut((member / 8) as usize) {
                    *byte |= 1 << (member % 8);
                }
            }
            let expected: Vec<u32> = members.range(..count).copied().collect();
            prop_assert_eq!(in_set(&set, count).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn any_bytes_are_answered_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), count: u16) {
            let numbers = in_set(&bytes, u32::from(count)).count() + in_poll_list(&bytes).count();
            prop_assert!(numbers <= bytes.len() * 8 + bytes.len());
            prop_assert!(in_epoll(&bytes).count() <= bytes.len());
        }

        #[test]
        fn a_line_gives_what_was_put_into_it(descriptor: u32, events: u32, inode: u64) {
            let line = format!("tfd: {descriptor:8} events: {events:8x} data: {:16x}  pos:0 ino:{inode:x} sdev:f\n", 7);
            let expected = (events & READABLE != 0).then_some(Watched { descriptor, inode });
            prop_assert_eq!(in_epoll(line.as_bytes()).next(), expected);
        }
    }
}
