//! Strict reading of a TOML table: every key is asked for once, what nobody asked for is refused.
//!
//! Invariant: an error names file, one-based line and dotted key, so a person can go there.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::nearest;

/// The text being read and where it came from.
pub(super) struct Source<'a> {
    pub(super) origin: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// One-based line of a byte offset.
    pub(super) fn line(&self, offset: usize) -> usize {
        let end = offset.min(self.text.len());
        memchr::memchr_iter(b'\n', &self.text.as_bytes()[..end]).count() + 1
    }

    /// A `CONFIG_INVALID` at a byte offset.
    pub(super) fn invalid(
        &self,
        offset: usize,
        key: &str,
        problem: impl Into<String>,
    ) -> ConfigError {
        ConfigError::Invalid {
            origin: self.origin.to_owned(),
            line: self.line(offset),
            key: key.to_owned(),
            problem: problem.into(),
        }
    }
}

/// A value together with what an error about it must name.
pub(super) struct Located<T> {
    pub(super) value: T,
    /// Byte offset in the source.
    pub(super) offset: usize,
    /// Dotted path of the key.
    pub(super) key: String,
}

/// One table; keys are taken out as they are read, and [`Reader::finish`] refuses the rest.
pub(super) struct Reader<'s, 't> {
    source: &'s Source<'s>,
    path: String,
    offset: usize,
    table: &'t DeTable<'t>,
    asked: Vec<&'static str>,
}

impl<'s, 't> Reader<'s, 't> {
    pub(super) fn new(
        source: &'s Source<'s>,
        path: String,
        offset: usize,
        table: &'t DeTable<'t>,
    ) -> Self {
        Self {
            source,
            path,
            offset,
            table,
            asked: Vec::new(),
        }
    }

    /// Names the table otherwise in errors, once a better name than its index is known.
    pub(super) fn rename(&mut self, path: String) {
        self.path = path;
    }

    fn key(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn take(&mut self, name: &'static str) -> Option<Located<&'t DeValue<'t>>> {
        self.asked.push(name);
        let (key, value) = self.table.iter().find(|(key, _)| key.get_ref() == name)?;
        Some(Located {
            value: value.get_ref(),
            offset: key.span().start,
            key: self.key(name),
        })
    }

    fn wrong_type(&self, found: &Located<&DeValue<'_>>, wanted: &str) -> ConfigError {
        self.source.invalid(
            found.offset,
            &found.key,
            format!("expected {wanted}, found {}", found.value.type_str()),
        )
    }

    /// A string that is not empty.
    pub(super) fn string(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Located<String>>, ConfigError> {
        let Some(found) = self.take(name) else {
            return Ok(None);
        };
        let Some(text) = found.value.as_str() else {
            return Err(self.wrong_type(&found, "a string"));
        };
        if text.is_empty() {
            return Err(self
                .source
                .invalid(found.offset, &found.key, "must not be empty"));
        }
        Ok(Some(Located {
            value: text.to_owned(),
            offset: found.offset,
            key: found.key,
        }))
    }

    /// A string or one of a closed set; the error names the set.
    pub(super) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ConfigError> {
        let Some(found) = self.string(name)? else {
            return Ok(None);
        };
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == found.value) {
            return Ok(Some(*value));
        }
        let words: Vec<String> = choices
            .iter()
            .map(|(word, _)| format!("\"{word}\""))
            .collect();
        Err(self.source.invalid(
            found.offset,
            &found.key,
            format!("expected {}", words.join(" or ")),
        ))
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, ConfigError> {
        let Some(found) = self.take(name) else {
            return Ok(None);
        };
        found
            .value
            .as_bool()
            .map(Some)
            .ok_or_else(|| self.wrong_type(&found, "true or false"))
    }

    /// An integer of at least 1 and at most `cap`.
    pub(super) fn positive(
        &mut self,
        name: &'static str,
        cap: u64,
    ) -> Result<Option<u64>, ConfigError> {
        let Some(found) = self.take(name) else {
            return Ok(None);
        };
        let Some(number) = found.value.as_integer() else {
            return Err(self.wrong_type(&found, "a whole number"));
        };
        let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
        match value.filter(|value| (1..=cap).contains(value)) {
            Some(value) => Ok(Some(value)),
            None => Err(self.source.invalid(
                found.offset,
                &found.key,
                format!("must lie in 1 to {cap}"),
            )),
        }
    }

    /// A list of strings, none of them empty.
    pub(super) fn strings(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Located<Vec<String>>>, ConfigError> {
        let Some(found) = self.take(name) else {
            return Ok(None);
        };
        let value = self.string_list(&found)?;
        Ok(Some(Located {
            value,
            offset: found.offset,
            key: found.key,
        }))
    }

    /// A list of lists of strings: command lines.
    pub(super) fn command_lines(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Located<Vec<Vec<String>>>>, ConfigError> {
        let Some(found) = self.take(name) else {
            return Ok(None);
        };
        let Some(array) = found.value.as_array() else {
            return Err(self.wrong_type(&found, "a list of command lines, each a list of strings"));
        };
        let mut lines = Vec::new();
        for (index, item) in array.iter().enumerate() {
            let key = format!("{}[{index}]", found.key);
            let item = Located {
                value: item.get_ref(),
                offset: item.span().start,
                key,
            };
            let line = self.string_list(&item)?;
            if line.is_empty() {
                return Err(self.source.invalid(
                    item.offset,
                    &item.key,
                    "an empty command line starts nothing",
                ));
            }
            lines.push(line);
        }
        Ok(Some(Located {
            value: lines,
            offset: found.offset,
            key: found.key,
        }))
    }

    fn string_list(&self, found: &Located<&DeValue<'_>>) -> Result<Vec<String>, ConfigError> {
        let Some(array) = found.value.as_array() else {
            return Err(self.wrong_type(found, "a list of strings"));
        };
        array
            .iter()
            .enumerate()
            .map(|(index, item)| match item.get_ref().as_str() {
                Some(text) if !text.is_empty() => Ok(text.to_owned()),
                Some(_) => Err(self.source.invalid(
                    item.span().start,
                    &format!("{}[{index}]", found.key),
                    "must not be empty",
                )),
                None => Err(self.source.invalid(
                    item.span().start,
                    &format!("{}[{index}]", found.key),
                    format!("expected a string, found {}", item.get_ref().type_str()),
                )),
            })
            .collect()
    }

    /// A table below this one.
    pub(super) fn table(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Reader<'s, 't>>, ConfigError> {
        let Some(found) = self.take(name) else {
            return Ok(None);
        };
        let Some(table) = found.value.as_table() else {
            return Err(self.wrong_type(&found, "a table"));
        };
        Ok(Some(Reader::new(
            self.source,
            found.key,
            found.offset,
            table,
        )))
    }

    /// A list of tables below this one, at least one.
    pub(super) fn tables(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Vec<Reader<'s, 't>>>, ConfigError> {
        let Some(found) = self.take(name) else {
            return Ok(None);
        };
        let Some(array) = found.value.as_array() else {
            return Err(self.wrong_type(&found, "a list of tables"));
        };
        if array.is_empty() {
            return Err(self.source.invalid(
                found.offset,
                &found.key,
                "must hold at least one entry",
            ));
        }
        let mut readers = Vec::new();
        for (index, item) in array.iter().enumerate() {
            let item = Located {
                value: item.get_ref(),
                offset: item.span().start,
                key: format!("{}[{index}]", found.key),
            };
            let Some(table) = item.value.as_table() else {
                return Err(self.wrong_type(&item, "a table"));
            };
            readers.push(Reader::new(self.source, item.key, item.offset, table));
        }
        Ok(Some(readers))
    }

    /// A table of free keys, as JSON.
    pub(super) fn json_object(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Map<String, Value>>, ConfigError> {
        let Some(found) = self.take(name) else {
            return Ok(None);
        };
        match self.json(&found)? {
            Value::Object(object) => Ok(Some(object)),
            _ => Err(self.wrong_type(&found, "a table")),
        }
    }

    /// Any value, as JSON.
    pub(super) fn json_value(&mut self, name: &'static str) -> Result<Option<Value>, ConfigError> {
        let Some(found) = self.take(name) else {
            return Ok(None);
        };
        self.json(&found).map(Some)
    }

    fn json(&self, found: &Located<&DeValue<'_>>) -> Result<Value, ConfigError> {
        Ok(match found.value {
            DeValue::String(text) => Value::String(text.clone().into_owned()),
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Integer(number) => {
                let value = i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| {
                    self.source
                        .invalid(found.offset, &found.key, "the number is too large")
                })?;
                Value::Number(value.into())
            }
            DeValue::Float(number) => number
                .as_str()
                .parse::<f64>()
                .ok()
                .and_then(Number::from_f64)
                .map(Value::Number)
                .ok_or_else(|| {
                    self.source
                        .invalid(found.offset, &found.key, "JSON has no such number")
                })?,
            DeValue::Datetime(_) => {
                return Err(self.source.invalid(
                    found.offset,
                    &found.key,
                    "JSON has no dates; write it as a string",
                ));
            }
            DeValue::Array(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| {
                    self.json(&Located {
                        value: item.get_ref(),
                        offset: item.span().start,
                        key: format!("{}[{index}]", found.key),
                    })
                })
                .collect::<Result<_, _>>()?,
            DeValue::Table(table) => {
                let mut object = Map::new();
                for (key, value) in table {
                    let name: &Cow<'_, str> = key.get_ref();
                    let inner = Located {
                        value: value.get_ref(),
                        offset: key.span().start,
                        key: format!("{}.{name}", found.key),
                    };
                    object.insert(name.clone().into_owned(), self.json(&inner)?);
                }
                Value::Object(object)
            }
        })
    }

    /// A `CONFIG_INVALID` about the table itself.
    pub(super) fn invalid(&self, problem: impl Into<String>) -> ConfigError {
        self.source.invalid(self.offset, &self.path, problem)
    }

    /// A `CONFIG_INVALID` about a value read before.
    pub(super) fn invalid_value<T>(
        &self,
        found: &Located<T>,
        problem: impl Into<String>,
    ) -> ConfigError {
        self.source.invalid(found.offset, &found.key, problem)
    }

    /// Refuses keys that nobody asked for, except those in `others`.
    pub(super) fn finish(self, others: &[&str]) -> Result<(), ConfigError> {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if self.asked.contains(&name) || others.contains(&name) {
                continue;
            }
            let known = self.asked.iter().copied().chain(others.iter().copied());
            let problem = match nearest(name, known) {
                Some(near) => format!("unknown key; did you mean `{near}`?"),
                None => "unknown key".to_owned(),
            };
            return Err(self
                .source
                .invalid(key.span().start, &self.key(name), problem));
        }
        Ok(())
    }
}
