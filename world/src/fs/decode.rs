//! Decoding of bytes to text, the same for every provider and without I/O. Owns the rules of what is text: strict UTF-8,
//! no NUL byte among the first 8,192 bytes, a leading byte order mark reported and taken off. Chunk boundaries change
//! nothing.

/// How many bytes at the beginning of a file are searched for a NUL byte.
pub const NUL_SAMPLE_BYTES: usize = 8192;

/// U+FEFF in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why bytes are not text, and where: `at` is the offset in bytes from the beginning of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFault {
    /// A NUL byte where text has none: for a reader, among the first [`NUL_SAMPLE_BYTES`] bytes.
    Nul {
        /// Where it stands.
        at: u64,
    },
    /// A sequence that is not UTF-8, or an unfinished one at the end.
    NotUtf8 {
        /// Where it begins.
        at: u64,
    },
}

impl TextFault {
    /// What was found, for a message.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Nul { .. } => "it has a NUL byte",
            Self::NotUtf8 { .. } => "it has a byte sequence that is not UTF-8",
        }
    }

    /// Where it was found, in bytes from the beginning of the file.
    pub fn at(self) -> u64 {
        match self {
            Self::Nul { at } | Self::NotUtf8 { at } => at,
        }
    }
}

/// Decodes a whole file that is to be changed: without a NUL byte anywhere, since a text that goes back to the disk is
/// looked at whole. Gives the text without a leading byte order mark, and whether there was one.
///
/// Gives a [`TextFault`] for what is not text.
pub(crate) fn decode_whole(bytes: Vec<u8>) -> Result<(String, bool), TextFault> {
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(TextFault::Nul { at: at as u64 });
    }
    let mut text = String::from_utf8(bytes).map_err(|fault| TextFault::NotUtf8 {
        at: fault.utf8_error().valid_up_to() as u64,
    })?;
    let had_bom = text.as_bytes().starts_with(BYTE_ORDER_MARK);
    if had_bom {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    Ok((text, had_bom))
}

/// Decodes a file chunk by chunk.
#[derive(Debug, Default)]
pub struct TextDecoder {
    pending: Vec<u8>,
    /// Whether a NUL byte is refused wherever it stands.
    refuses_every_nul: bool,
    /// How many bytes were pushed.
    seen: u64,
    past_start: bool,
    had_bom: bool,
}

impl TextDecoder {
    /// A decoder for a file that is to be changed, with the rule of [`decode_whole`] on NUL bytes.
    pub(crate) fn for_change() -> Self {
        Self {
            refuses_every_nul: true,
            ..Self::default()
        }
    }

    /// Whether the file began with a byte order mark. Known once three bytes or the end were seen.
    pub fn had_bom(&self) -> bool {
        self.had_bom
    }

    /// Takes the next bytes and gives the text that is complete with them; it can be empty.
    ///
    /// Gives a [`TextFault`] when the bytes cannot be text whatever follows.
    pub fn push(&mut self, chunk: &[u8]) -> Result<String, TextFault> {
        let unsampled = (NUL_SAMPLE_BYTES as u64).saturating_sub(self.seen);
        let sampled = if self.refuses_every_nul {
            chunk.len()
        } else {
            usize::try_from(unsampled).map_or(chunk.len(), |left| left.min(chunk.len()))
        };
        if let Some(index) = chunk[..sampled].iter().position(|byte| *byte == 0) {
            let at = self.seen + index as u64;
            return Err(TextFault::Nul { at });
        }
        self.seen += chunk.len() as u64;
        self.pending.extend_from_slice(chunk);
        if !self.past_start {
            if self.pending.len() < BYTE_ORDER_MARK.len()
                && BYTE_ORDER_MARK.starts_with(&self.pending)
            {
                return Ok(String::new());
            }
            self.past_start = true;
            if self.pending.starts_with(BYTE_ORDER_MARK) {
                self.had_bom = true;
                self.pending.drain(..BYTE_ORDER_MARK.len());
            }
        }
        let complete = match std::str::from_utf8(&self.pending) {
            Ok(_) => self.pending.len(),
            Err(fault) if fault.error_len().is_some() => {
                return Err(self.not_utf8(fault.valid_up_to()));
            }
            Err(fault) => fault.valid_up_to(),
        };
        let rest = self.pending.split_off(complete);
        let text = std::mem::replace(&mut self.pending, rest);
        String::from_utf8(text).map_err(|_| self.not_utf8(0))
    }

    /// Ends the file.
    ///
    /// Gives a [`TextFault`] when an unfinished sequence is left.
    pub fn finish(self) -> Result<(), TextFault> {
        if self.pending.is_empty() {
            Ok(())
        } else {
            Err(self.not_utf8(0))
        }
    }

    /// The fault at an index of what is pending, which are the last bytes that were seen.
    fn not_utf8(&self, index: usize) -> TextFault {
        let at = self.seen - self.pending.len() as u64 + index as u64;
        TextFault::NotUtf8 { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(chunks: &[&[u8]]) -> Result<(String, bool), TextFault> {
        let mut decoder = TextDecoder::default();
        let mut text = String::new();
        for chunk in chunks {
            text.push_str(&decoder.push(chunk)?);
        }
        let had_bom = decoder.had_bom();
        decoder.finish()?;
        Ok((text, had_bom))
    }

    #[test]
    fn a_byte_order_mark_that_is_split_over_chunks_is_reported_and_taken_off() {
        let decoded = decode(&[b"\xef", b"\xbb", b"\xbfa"]).unwrap();

        assert_eq!(decoded, ("a".to_owned(), true));
    }

    #[test]
    fn a_second_byte_order_mark_is_text() {
        assert_eq!(
            decode(&["\u{feff}\u{feff}x".as_bytes()]).unwrap(),
            ("\u{feff}x".to_owned(), true)
        );
    }

    #[test]
    fn an_unfinished_byte_order_mark_is_not_text() {
        assert_eq!(decode(&[b"\xef\xbb"]), Err(TextFault::NotUtf8 { at: 0 }));
    }

    #[test]
    fn a_nul_byte_counts_in_the_sample_alone_wherever_the_chunks_end() {
        let before = vec![b'a'; NUL_SAMPLE_BYTES - 1];

        let at = NUL_SAMPLE_BYTES as u64 - 1;
        assert_eq!(decode(&[&before, b"\0"]), Err(TextFault::Nul { at }));
        assert_eq!(
            decode(&[&before, b"b", b"\0"]).unwrap().0.len(),
            NUL_SAMPLE_BYTES + 1
        );
    }

    #[test]
    fn a_fault_is_told_by_its_place_in_the_file_wherever_the_chunks_end() {
        let bytes = b"\xef\xbb\xbfab\xc3\xa9\xff";
        for size in 1..=bytes.len() {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(decode(&chunks), Err(TextFault::NotUtf8 { at: 7 }), "{size}");
        }
        assert_eq!(decode(&[b"ab\xe2\x82"]), Err(TextFault::NotUtf8 { at: 2 }));
    }

    #[test]
    fn a_file_that_is_to_be_changed_has_no_nul_byte_anywhere() {
        let mut late = vec![b'a'; NUL_SAMPLE_BYTES + 5];
        late.push(0);

        let at = NUL_SAMPLE_BYTES as u64 + 5;
        assert_eq!(decode_whole(late), Err(TextFault::Nul { at }));
        assert_eq!(decode_whole("\u{feff}é".into()), Ok(("é".to_owned(), true)));
        assert_eq!(
            decode_whole(b"a\xff".to_vec()),
            Err(TextFault::NotUtf8 { at: 1 })
        );
    }

    proptest! {
        #[test]
        fn both_ways_of_decoding_agree_on_what_has_no_nul_byte(bytes in proptest::collection::vec(1u8..=255, 0..16), text in "[^\0]{0,20}", is_text in any::<bool>()) {
            let bytes = if is_text { text.into_bytes() } else { bytes };

            prop_assert_eq!(decode_whole(bytes.clone()), decode(&[&bytes]));
        }

        #[test]
        fn chunking_changes_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..64), text in ".{0,40}", cut in any::<bool>(), size in 1usize..9) {
            let bytes = if cut { bytes } else { text.into_bytes() };
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();

            let piecewise = decode(&chunks);

            prop_assert_eq!(piecewise.is_ok(), decode(&[&bytes]).is_ok());
            if let Ok((text, had_bom)) = piecewise {
                let mut whole = if had_bom { BYTE_ORDER_MARK.to_vec() } else { Vec::new() };
                whole.extend_from_slice(text.as_bytes());
                prop_assert_eq!(whole, bytes);
            }
        }
    }
}
