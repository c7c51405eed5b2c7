//! Order, duplicates, the cap, and the declaration among references.

use lspool_normalize::locations::{DeclarationFate, Scope, Window, normalise, with_declarations};
use lspool_normalize::{Place, Position, Range, UriKey, WireUri};
use proptest::prelude::*;

fn place(uri: &str, line: u32) -> Place {
    Place {
        uri: WireUri::new(uri),
        range: Range::new(Position::new(line, 0), Position::new(line, 3)),
        full_range: None,
        origin: None,
        declaration: false,
    }
}

fn scope() -> Scope {
    Scope::new(
        WireUri::new("file:///p/src/m%61in.c"),
        Some(UriKey::new("file:///p/")),
    )
}

const ALL: Window = Window {
    skip: 0,
    max: usize::MAX,
};

#[test]
fn the_queried_file_comes_first_then_the_workspace_then_the_rest() {
    // Given places in every group, not in order.
    let places = vec![
        place("file:///usr/include/stdio.h", 1),
        place("jdt://contents/a", 1),
        place("file:///p/src/b.c", 2),
        place("file:///p/a.c", 2),
        place("file:///p/src.c", 9),
        place("file:///p/src/main.c", 7),
        place("file:///p/src/main.c", 5),
        place("deno:/x", 1),
    ];
    // When they are put in order.
    let cut = normalise(places, &scope(), ALL);
    // Then groups follow each other, and in the workspace bytes decide (`.` before `/`).
    let order: Vec<(String, u32)> = cut
        .places
        .iter()
        .map(|sited| (sited.path(), sited.place.range.start.line))
        .collect();
    let expected = [
        ("/p/src/main.c", 5),
        ("/p/src/main.c", 7),
        ("/p/a.c", 2),
        ("/p/src.c", 9),
        ("/p/src/b.c", 2),
        ("deno:/x", 1),
        ("/usr/include/stdio.h", 1),
        ("jdt://contents/a", 1),
    ];
    assert_eq!(order, expected.map(|(path, line)| (path.to_owned(), line)));
    let inside: Vec<bool> = cut.places.iter().map(|sited| sited.in_workspace).collect();
    assert_eq!(inside, [true, true, true, true, true, false, false, false]);
}

#[test]
fn two_spellings_of_one_place_are_one_and_the_queried_spelling_is_echoed() {
    let mut whole = place("file://localhost/p/src/main.c", 5);
    whole.full_range = Some(Range::new(Position::new(4, 0), Position::new(9, 1)));
    whole.declaration = true;
    let cut = normalise(
        vec![place("file:///p/src/./main.c", 5), whole],
        &scope(),
        ALL,
    );
    assert_eq!(cut.total, 1);
    let only = &cut.places[0].place;
    assert_eq!(only.uri.as_str(), "file:///p/src/m%61in.c");
    assert!(only.declaration && only.full_range.is_some());
}

#[test]
fn the_cap_cuts_after_sorting_and_counting() {
    let places: Vec<Place> = (0..10)
        .rev()
        .flat_map(|line| vec![place("file:///p/a", line); 2])
        .collect();
    let cut = normalise(places.clone(), &scope(), Window { skip: 0, max: 3 });
    assert_eq!((cut.total, cut.truncated), (10, true));
    let lines: Vec<u32> = cut
        .places
        .iter()
        .map(|sited| sited.place.range.start.line)
        .collect();
    assert_eq!(lines, [0, 1, 2]);
    let rest = normalise(places, &scope(), Window { skip: 8, max: 3 });
    assert_eq!(
        (rest.places.len(), rest.total, rest.truncated),
        (2, 10, false)
    );
}

#[test]
fn without_a_workspace_nothing_is_inside() {
    let scope = Scope::new(WireUri::new("file:///p/a"), None);
    assert!(!normalise(vec![place("file:///p/a", 1)], &scope, ALL).places[0].in_workspace);
}

#[test]
fn a_listed_declaration_is_marked() {
    let references = vec![place("file:///p/a", 1), place("file:///p/a", 4)];
    let (references, fate) = with_declarations(references, &[place("file://localhost/p/a", 4)]);
    assert_eq!(fate, DeclarationFate::Marked);
    let marks: Vec<bool> = references
        .iter()
        .map(|reference| reference.declaration)
        .collect();
    assert_eq!(marks, [false, true]);
}

#[test]
fn a_declaration_that_the_server_left_out_is_added() {
    let (references, fate) =
        with_declarations(vec![place("file:///p/a", 1)], &[place("file:///p/b", 1)]);
    assert_eq!(fate, DeclarationFate::Added);
    assert_eq!(references.len(), 2);
    assert!(references[1].declaration && !references[0].declaration);
}

#[test]
fn without_a_definition_nothing_is_marked() {
    let (references, fate) = with_declarations(vec![place("file:///p/a", 1)], &[]);
    assert_eq!(fate, DeclarationFate::Unknown);
    assert!(!references[0].declaration);
}

proptest! {
    #[test]
    fn the_order_of_arrival_does_not_matter(
        places in prop::collection::vec((prop::sample::select(vec!["file:///p/a", "file:///p/src/main.c", "file:///q", "file:/p/a", "x:y"]), 0_u32..4), 0..20),
        max in 0_usize..25,
    ) {
        let forwards: Vec<Place> = places.iter().map(|(uri, line)| place(uri, *line)).collect();
        let backwards: Vec<Place> = forwards.iter().rev().cloned().collect();
        let window = Window { skip: 0, max };
        let (one, other) = (normalise(forwards, &scope(), window), normalise(backwards, &scope(), window));
        let compared = |cut: &lspool_normalize::locations::Cut| {
            cut.places.iter().map(|sited| (sited.key.clone(), sited.place.range)).collect::<Vec<_>>()
        };
        prop_assert_eq!(compared(&one), compared(&other));
        prop_assert_eq!(one.total, other.total);
        prop_assert_eq!(one.truncated, one.places.len() < one.total);
        prop_assert!(one.places.len() <= max);
    }

    #[test]
    fn windows_put_together_are_the_whole(lines in prop::collection::vec(0_u32..30, 0..30), step in 1_usize..7) {
        let places: Vec<Place> = lines.iter().map(|line| place("file:///p/a", *line)).collect();
        let whole = normalise(places.clone(), &scope(), ALL);
        let mut pages = Vec::new();
        loop {
            let page = normalise(places.clone(), &scope(), Window { skip: pages.len(), max: step });
            pages.extend(page.places);
            if !page.truncated {
                break;
            }
        }
        prop_assert_eq!(pages, whole.places);
    }
}
