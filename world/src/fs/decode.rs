//! Decoding of bytes to text, the same for every provider and without I/O. Owns the rules of what is text: strict UTF-8,
//! no NUL byte among the first 8,192 bytes, a leading byte order mark reported and taken off. Chunk boundaries change
//! nothing.

/// How many bytes at the beginning of a file are searched for a NUL byte.
pub const NUL_SAMPLE_BYTES: usize = 8192;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why bytes are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFault {
    /// A NUL byte among the first [`NUL_SAMPLE_BYTES`] bytes.
    Nul,
    /// A sequence that is not UTF-8, or an unfinished one at the end.
    NotUtf8,
}

impl TextFault {
    /// What was found, for a message.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Nul => "it has a NUL byte near its beginning",
            Self::NotUtf8 => "it has a byte sequence that is not UTF-8",
        }
    }
}

/// Decodes a file chunk by chunk.
#[derive(Debug, Default)]
pub struct TextDecoder {
    pending: Vec<u8>,
    seen: usize,
    past_start: bool,
    had_bom: bool,
}

impl TextDecoder {
    /// Whether the file began with a byte order mark. Known once three bytes or the end were seen.
    pub fn had_bom(&self) -> bool {
        self.had_bom
    }

    /// Takes the next bytes and gives the text that is complete with them; it can be empty.
    ///
    /// Gives a [`TextFault`] when the bytes cannot be text whatever follows.
    pub fn push(&mut self, chunk: &[u8]) -> Result<String, TextFault> {
        let sampled = NUL_SAMPLE_BYTES.saturating_sub(self.seen).min(chunk.len());
        if chunk[..sampled].contains(&0) {
            return Err(TextFault::Nul);
        }
        self.seen = self.seen.saturating_add(chunk.len());
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
            Err(fault) if fault.error_len().is_some() => return Err(TextFault::NotUtf8),
            Err(fault) => fault.valid_up_to(),
        };
        let rest = self.pending.split_off(complete);
        let text = std::mem::replace(&mut self.pending, rest);
        String::from_utf8(text).map_err(|_| TextFault::NotUtf8)
    }

    /// Ends the file.
    ///
    /// Gives a [`TextFault`] when an unfinished sequence is left.
    pub fn finish(self) -> Result<(), TextFault> {
        if self.pending.is_empty() {
            Ok(())
        } else {
            Err(TextFault::NotUtf8)
        }
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
        assert_eq!(decode(&[b"\xef\xbb"]), Err(TextFault::NotUtf8));
    }

    #[test]
    fn a_nul_byte_counts_in_the_sample_alone_wherever_the_chunks_end() {
        let before = vec![b'a'; NUL_SAMPLE_BYTES - 1];

        assert_eq!(decode(&[&before, b"\0"]), Err(TextFault::Nul));
        assert_eq!(
            decode(&[&before, b"b", b"\0"]).unwrap().0.len(),
            NUL_SAMPLE_BYTES + 1
        );
    }

    proptest! {
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
