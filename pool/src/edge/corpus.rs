//! The committed fuzz corpus, run on a stable compiler.

// The properties name the pool as the fuzz crate does.
use crate as pool;

#[expect(unreachable_pub, reason = "public for the fuzz targets")]
#[path = "../../../fuzz/src/properties.rs"]
mod properties;

/// Runs a property on every file of a target's corpus; gives their number.
#[expect(
    clippy::disallowed_methods,
    reason = "a test reads files of its own repository"
)]
fn run(target: &str, property: fn(&[u8])) -> usize {
    let folder = format!("{}/../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    for file in &files {
        // The last line names the input when the property does not hold.
        println!("{}", file.display());
        property(&std::fs::read(file).unwrap());
    }
    files.len()
}

#[test]
fn the_corpus_of_the_framer_holds() {
    assert!(run("framer", properties::framer) >= 10);
}

#[test]
fn the_corpus_of_the_envelope_holds() {
    assert!(run("envelope", properties::envelope) >= 10);
}

#[test]
fn the_corpus_of_the_edge_holds() {
    assert!(run("edge", properties::edge) >= 5);
}
