//! The catalogue of behaviours: that every line has its row, and every row a test that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// The numbers of the lines about files.
const FILE_LINES: [RangeInclusive<u16>; 6] =
    [1..=13, 20..=82, 90..=137, 150..=173, 180..=193, 200..=224];

/// The numbers of the lines about processes and terminals.
const PROCESS_LINES: [RangeInclusive<u16>; 6] =
    [1..=20, 30..=47, 50..=61, 70..=90, 100..=118, 130..=139];

/// What a row says of its line.
#[derive(Debug, PartialEq, Eq)]
enum Row {
    /// These tests hold it, in place of what the line says where there is a reason.
    Held(Vec<String>),
    /// It does not apply.
    Excluded,
}

impl Row {
    fn parse(value: &Value) -> Result<Self, String> {
        match value {
            Value::Table(table) => Self::parse_table(table),
            _ => Ok(Self::Held(tests(value)?)),
        }
    }

    fn parse_table(table: &Table) -> Result<Self, String> {
        let keys: BTreeSet<&str> = table.keys().map(String::as_str).collect();
        let reason = |key: &str| match table[key].as_str() {
            Some(reason) if !reason.trim().is_empty() => Ok(()),
            _ => Err(format!("{key} gives no reason")),
        };
        match *keys.iter().copied().collect::<Vec<_>>() {
            ["excluded"] => reason("excluded").map(|()| Self::Excluded),
            ["replaced", "why"] => {
                reason("why")?;
                Ok(Self::Held(tests(&table["replaced"])?))
            }
            _ => Err(format!("has {keys:?}, which is no row")),
        }
    }
}

/// The names of one test or of several.
fn tests(value: &Value) -> Result<Vec<String>, String> {
    let names = match value {
        Value::String(name) => Some(vec![name.clone()]),
        Value::Array(names) => names
            .iter()
            .map(|name| name.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    };
    match names {
        Some(names) if !names.is_empty() => Ok(names),
        _ => Err("names no test".to_owned()),
    }
}

fn world_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files in which a test of this name may stand, and the bare name.
fn places(name: &str) -> (Vec<PathBuf>, &str) {
    let (place, test) = name.rsplit_once("::").unwrap_or(("", name));
    if place.contains('/') {
        let repository = world_folder().parent().unwrap();
        return (vec![repository.join(place)], test);
    }
    let mut steps: Vec<&str> = place.split("::").collect();
    let mut folder = world_folder().join("tests/contract");
    if steps.first() == Some(&"src") {
        steps.remove(0);
        folder = world_folder().join("src");
    }
    let module = folder.join(steps.join("/"));
    let places = [
        module.with_extension("rs"),
        module.join("mod.rs"),
        module.join("tests.rs"),
    ];
    (places.to_vec(), test)
}

/// Whether a source has a test of this name that runs: one with a test attribute and without `ignore`, or one in the
/// list of a suite.
fn has_test(source: &str, test: &str) -> bool {
    let is_listed = source
        .rsplit_once("each_provider!(")
        .and_then(|(_, list)| list.trim_start().strip_prefix('['))
        .is_some_and(|list| list.split([',', ']']).any(|name| name.trim() == test));
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let defined = lines
        .iter()
        .position(|line| line.contains(&format!("fn {test}(")));
    defined.is_some_and(|at| is_listed || has_test_attribute(&lines[..at]))
}

/// Whether the attributes at the end of `above` make what follows a test that runs.
fn has_test_attribute(above: &[&str]) -> bool {
    let attributes: Vec<&str> = above
        .iter()
        .rev()
        .take_while(|line| !line.is_empty() && !line.ends_with(['{', '}', ';']))
        .copied()
        .collect();
    let any = |wanted: &str| attributes.iter().any(|line| line.starts_with(wanted));
    (any("#[test]") || any("#[tokio::test")) && !any("#[ignore")
}

fn lines() -> BTreeSet<String> {
    let numbered = |family: &'static str, ranges: [RangeInclusive<u16>; 6]| {
        ranges
            .into_iter()
            .flatten()
            .map(move |number| format!("{family}-{number:03}"))
    };
    numbered("FS", FILE_LINES)
        .chain(numbered("SP", PROCESS_LINES))
        .collect()
}

/// All rows by line, and what is wrong with the files.
fn rows() -> (BTreeMap<String, Row>, Vec<String>) {
    let folder = world_folder().join("tests/contract/catalogue");
    let (mut rows, mut faults) = (BTreeMap::new(), Vec::new());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let table: Table = match fs::read_to_string(&path).unwrap().parse() {
            Ok(table) => table,
            Err(error) => {
                faults.push(format!("{file}: {error}"));
                continue;
            }
        };
        for (line, value) in table {
            match Row::parse(&value) {
                Ok(row) => {
                    if rows.insert(line.clone(), row).is_some() {
                        faults.push(format!("{file}: {line} has a row in another file too"));
                    }
                }
                Err(fault) => faults.push(format!("{file}: {line} {fault}")),
            }
        }
    }
    (rows, faults)
}

#[test]
fn every_line_has_a_row_and_every_row_a_test_that_runs() {
    let (rows, mut faults) = rows();
    let lines = lines();
    for (line, row) in &rows {
        if !lines.contains(line) {
            faults.push(format!("{line} is no line"));
        }
        let Row::Held(tests) = row else { continue };
        for name in tests {
            let (places, test) = places(name);
            let is_there = places
                .iter()
                .any(|place| fs::read_to_string(place).is_ok_and(|source| has_test(&source, test)));
            if !is_there {
                faults.push(format!("{line} names {name}, which is no test that runs"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    let missing: Vec<&String> = lines
        .iter()
        .filter(|line| !rows.contains_key(*line))
        .collect();
    assert!(missing.is_empty(), "lines without a row: {missing:?}");
}

#[test]
fn a_row_is_read_as_it_is_written() {
    let row = |text: &str| Row::parse(&format!("row = {text}").parse::<Table>().unwrap()["row"]);
    let held = |names: &[&str]| {
        Ok(Row::Held(
            names.iter().map(|name| (*name).to_owned()).collect(),
        ))
    };

    assert_eq!(row(r#""a::b""#), held(&["a::b"]));
    assert_eq!(row(r#"["a::b", "c::d"]"#), held(&["a::b", "c::d"]));
    assert_eq!(row(r#"{ replaced = "a::b", why = "x" }"#), held(&["a::b"]));
    assert_eq!(row(r#"{ excluded = "x" }"#), Ok(Row::Excluded));
    for wrong in [
        "1",
        "[]",
        "[1]",
        "{}",
        r#"{ excluded = " " }"#,
        r#"{ replaced = "a::b" }"#,
        r#"{ replaced = "a::b", why = "" }"#,
        r#"{ replaced = [], why = "x" }"#,
    ] {
        assert!(row(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn only_a_test_that_runs_counts() {
    let source = "\
async fn listed(f: &F) {}
#[test]
fn plain() {}
fn helper() {}
#[tokio::test(flavor = \"multi_thread\")]
async fn driven() {}
#[test]
#[ignore = \"slow\"]
fn ignored() {}
each_provider!([
    listed,
    never_written,
]);
";
    for (name, counts) in [
        ("listed", true),
        ("plain", true),
        ("driven", true),
        ("helper", false),
        ("ignored", false),
        ("never_written", false),
        ("list", false),
    ] {
        assert_eq!(has_test(source, name), counts, "{name}");
    }
}
