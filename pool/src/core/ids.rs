//! The numbers by which the core names what it owns.

use std::fmt;

/// Milliseconds since the pool started, from a clock that never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The tick `milliseconds` later.
    #[must_use]
    pub fn after(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// Milliseconds from `earlier` to this tick, 0 when `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number!(
    /// One attached connection.
    ClientId, "c"
);
number!(
    /// One pooled server, over all its restarts.
    InstanceId, "i"
);
number!(
    /// One process of an instance: it rises by one with each start.
    Generation, "g"
);
number!(
    /// Work that the shell does for the core.
    JobId, "j"
);
number!(
    /// One call of a custom method on a connection.
    CallId, "m"
);
number!(
    /// One normalised query.
    QueryTicket, "q"
);

/// One side of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// A client's connection.
    Client(ClientId),
    /// The standard streams of one process of an instance.
    Server(InstanceId, Generation),
}

/// What a timer is for. Arming a timer that is armed moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A deadline of an instance.
    Instance(InstanceId, InstanceTimer),
    /// A query's whole budget.
    QueryDeadline(QueryTicket),
    /// The next look at a waiting query: readiness, or a repeated request.
    QueryStep(QueryTicket),
    /// A full client that does not read.
    ClientProgress(ClientId),
    /// A client that said its last word and is still owed answers.
    ClientLeaving(ClientId),
}

/// The deadlines of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceTimer {
    /// `initialize` must be answered by then.
    Startup,
    /// The next start after a crash.
    Restart,
    /// Nobody uses it.
    Idle,
    /// The present step of the end ladder.
    Ending,
    /// Its outbox is full and it does not read.
    Stall,
}
