//! Order, duplicates and the cap of a list of places.
//!
//! Invariant (`design.md` §5): one place for each decoded path and range; the queried file first, then the workspace by
//! byte order of the relative path, then all others by URI; the cap cuts after sorting and after counting.

use std::cmp::Ordering;

use crate::answer::Place;
use crate::uri::{UriKey, WireUri};

/// What places are judged against.
#[derive(Debug, Clone)]
pub struct Scope {
    queried: WireUri,
    queried_key: UriKey,
    workspace: Option<UriKey>,
}

impl Scope {
    /// The file that was asked about, in the spelling of the request, and the workspace's root, if there is one.
    pub fn new(queried: WireUri, workspace: Option<UriKey>) -> Self {
        Self {
            queried_key: queried.key(),
            queried,
            workspace,
        }
    }
}

/// The stretch of the sorted list that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How many places to pass over: 0, or where a cursor stands.
    pub skip: usize,
    /// How many places to give at most.
    pub max: usize,
}

/// A place with what it is compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sited {
    /// The place; its URI is in the request's spelling where it names the queried file.
    pub place: Place,
    /// What the URI is compared by.
    pub key: UriKey,
    /// Whether it lies inside the workspace.
    pub in_workspace: bool,
}

impl Sited {
    /// The decoded path as text, with U+FFFD for what is not UTF-8; the URI for what is no file of this world.
    pub fn path(&self) -> String {
        match self.key.file_path() {
            Some(path) => String::from_utf8_lossy(path).into_owned(),
            None => self.place.uri.as_str().to_owned(),
        }
    }
}

/// A list after sorting and cutting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The places of the window, in order.
    pub places: Vec<Sited>,
    /// How many there are after deduplication and before the cut.
    pub total: usize,
    /// Whether places follow after the window.
    pub truncated: bool,
}

/// Deduplicates, sorts and cuts.
///
/// Of two places with one path and range the first stays and takes over what only the other has: the whole range and
/// the mark of a declaration.
pub fn normalise(places: Vec<Place>, scope: &Scope, window: Window) -> Cut {
    let mut sited: Vec<Sited> = places.into_iter().map(|place| site(place, scope)).collect();
    sited.sort_by(|left, right| order(left, right, scope));
    sited.dedup_by(|later, earlier| {
        let same = later.key == earlier.key && later.place.range == earlier.place.range;
        if same {
            earlier.place.declaration |= later.place.declaration;
            earlier.place.full_range = earlier.place.full_range.or(later.place.full_range);
        }
        same
    });
    let total = sited.len();
    let places: Vec<Sited> = sited
        .into_iter()
        .skip(window.skip)
        .take(window.max)
        .collect();
    Cut {
        truncated: window.skip.saturating_add(places.len()) < total,
        places,
        total,
    }
}

fn site(mut place: Place, scope: &Scope) -> Sited {
    let key = place.uri.key();
    if key == scope.queried_key {
        place.uri = scope.queried.clone();
    }
    Sited {
        in_workspace: scope
            .workspace
            .as_ref()
            .is_some_and(|root| key.is_within(root)),
        key,
        place,
    }
}

fn order(left: &Sited, right: &Sited, scope: &Scope) -> Ordering {
    let group = |sited: &Sited| {
        if sited.key == scope.queried_key {
            0
        } else if sited.in_workspace {
            1
        } else {
            2
        }
    };
    // Inside one root the order of whole paths is the order of relative ones. Outside, the decoded URI decides, so that
    // two spellings of one file stand together.
    group(left)
        .cmp(&group(right))
        .then_with(|| left.key.cmp(&right.key))
        .then_with(|| left.place.range.cmp(&right.place.range))
}

/// What became of the declaration among references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclarationFate {
    /// The server listed it; it is marked.
    Marked,
    /// The server left it out; it was added and marked.
    Added,
    /// No definition is known, so nothing could be marked.
    Unknown,
}

/// Marks the declarations among references and adds those that the server left out.
///
/// A reference is the declaration when it is in the definition's file and has its range or its start, since servers
/// differ in where they let a definition's range end. The worst fate of several definitions is told: one that was added
/// counts before those that were there.
pub fn with_declarations(
    references: Vec<Place>,
    definitions: &[Place],
) -> (Vec<Place>, DeclarationFate) {
    let mut references = references;
    if definitions.is_empty() {
        return (references, DeclarationFate::Unknown);
    }
    let keys: Vec<UriKey> = references
        .iter()
        .map(|reference| reference.uri.key())
        .collect();
    let mut fate = DeclarationFate::Marked;
    let mut added = Vec::new();
    for definition in definitions {
        let key = definition.uri.key();
        let mut found = false;
        for (reference, reference_key) in references.iter_mut().zip(&keys) {
            if *reference_key == key && reference.range.start == definition.range.start {
                reference.declaration = true;
                reference.full_range = reference.full_range.or(definition.full_range);
                found = true;
            }
        }
        if !found {
            fate = DeclarationFate::Added;
            added.push(Place {
                declaration: true,
                origin: None,
                ..definition.clone()
            });
        }
    }
    references.extend(added);
    (references, fate)
}
