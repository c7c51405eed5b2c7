//! The policy around the file seam: where a caller may write, and over what. What only decides is shown beside the code;
//! here it meets a provider.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lspool_world::fs::{
    EditIntent, EditOptions, EditRequest, GuardedFiles, Observation, ObservationPolicy,
    PolicyChain, WriteIntent, WriteOperation, WriteOptions, writable_target,
};
use lspool_world::{FsError, SandboxMode, SandboxPolicy, Target};

use crate::fixture::Fixture;

fn confined(mode: SandboxMode, writable_roots: &[&Path]) -> SandboxPolicy {
    SandboxPolicy {
        mode,
        network: false,
        writable_roots: writable_roots
            .iter()
            .map(|root| root.to_path_buf())
            .collect(),
    }
}

fn workspace(root: &Path) -> SandboxPolicy {
    confined(SandboxMode::WorkspaceWrite, &[root])
}

/// What the fence says of a path below the scratch folder: where the change would go, or the code of the refusal.
async fn fenced(
    fixture: &impl Fixture,
    path: impl AsRef<Path>,
    policy: &SandboxPolicy,
) -> Result<PathBuf, &'static str> {
    let fs = &**fixture.world().fs();
    let target = fixture.target(path).await;
    match writable_target(fs, &target, policy).await {
        Ok(target) => Ok(fs.process_path(&target)),
        Err(error) => Err(error.code()),
    }
}

pub(crate) async fn read_only_allows_no_change_and_every_read(fixture: &impl Fixture) {
    let scratch = fixture.scratch().to_path_buf();
    fixture.put("file", b"text");
    let policy = confined(SandboxMode::ReadOnly, &[&scratch]);
    let chain = PolicyChain::default();
    let files = guarded(fixture, &chain, "a", &policy);
    let target = fixture.target("file").await;

    // when it is written, edited and read
    let written = files
        .write_text(&target, "other", &WriteOptions::default())
        .await;
    let edited = files
        .edit_text(&target, &replace("text", "other"), &EditOptions::default())
        .await;
    let created = fenced(fixture, "new", &policy).await;
    let read = files.read_text(&target).await.unwrap();

    // then only the read is allowed
    assert_eq!(code(written), "FS_SANDBOX_DENIED");
    assert_eq!(code(edited), "FS_SANDBOX_DENIED");
    assert_eq!(created, Err("FS_SANDBOX_DENIED"));
    assert_eq!(read.text, "text");
}

pub(crate) async fn only_what_lies_in_a_root_can_be_changed(fixture: &impl Fixture) {
    let (inside, also_inside) = (fixture.folder("inside"), fixture.folder("also/inside"));
    fixture.put("inside_not/file", b"");
    let policy = confined(SandboxMode::WorkspaceWrite, &[&inside, &also_inside]);
    let scratch = fixture.scratch();

    for path in ["inside/new", "inside/new/deeper", "also/inside/x"] {
        assert_eq!(
            fenced(fixture, path, &policy).await,
            Ok(scratch.join(path)),
            "{path}"
        );
    }
    for path in [
        "inside_not/file",
        "also/x",
        "inside/../x",
        "inside/new/../../x",
        "..",
        "/",
    ] {
        assert_eq!(
            fenced(fixture, path, &policy).await,
            Err("FS_SANDBOX_DENIED"),
            "{path}"
        );
    }
}

pub(crate) async fn no_folder_is_writable_by_itself(fixture: &impl Fixture) {
    // The scratch folder lies in the temporary folder of the machine, which is no root unless it is named.
    let inside = fixture.folder("inside");

    assert_eq!(
        fenced(fixture, "beside", &workspace(&inside)).await,
        Err("FS_SANDBOX_DENIED")
    );
    for root in ["", "relative", "."] {
        assert_eq!(
            fenced(fixture, "beside", &workspace(Path::new(root))).await,
            Err("FS_SANDBOX_DENIED"),
            "{root:?}"
        );
    }
    let rootless = confined(SandboxMode::WorkspaceWrite, &[]);
    assert_eq!(
        fenced(fixture, "beside", &rootless).await,
        Err("FS_SANDBOX_DENIED")
    );
}

pub(crate) async fn a_root_that_is_no_folder_allows_nothing(fixture: &impl Fixture) {
    let file = fixture.put("file", b"");
    for root in [
        file.clone(),
        fixture.scratch().join("missing"),
        file.join("below"),
    ] {
        for path in ["file", "missing/x", "beside"] {
            assert_eq!(
                fenced(fixture, path, &workspace(&root)).await,
                Err("FS_SANDBOX_DENIED"),
                "{path} under {}",
                root.display()
            );
        }
    }
}

pub(crate) async fn links_are_judged_by_where_they_lead(fixture: &impl Fixture) {
    let inside = fixture.folder("inside");
    let outside = fixture.put("outside/file", b"");
    fixture.link("../outside", "inside/out");
    fixture.link("../outside/new", "inside/dangling");
    fixture.link("inside", "into");
    let policy = workspace(&inside);

    for path in ["inside/out/file", "inside/out/new/deep", "inside/dangling"] {
        assert_eq!(
            fenced(fixture, path, &policy).await,
            Err("FS_SANDBOX_DENIED"),
            "{path}"
        );
    }
    assert_eq!(
        fenced(fixture, "into/x", &policy).await,
        Ok(inside.join("x"))
    );
    // A root that is spelled through a link is the folder that the link leads to.
    let by_link = workspace(&fixture.scratch().join("inside/out"));
    assert_eq!(fenced(fixture, "outside/file", &by_link).await, Ok(outside));
}

pub(crate) async fn a_path_is_judged_as_it_resolves_now(fixture: &impl Fixture) {
    let (inside, outside) = (fixture.folder("inside"), fixture.folder("outside"));
    let fs = fixture.world().fs();
    let policy = workspace(&inside);
    fixture.link("outside", "now_in");
    fixture.link("inside", "now_out");
    let now_in = fixture.target("now_in/file").await;
    let now_out = fixture.target("now_out/file").await;
    assert_eq!(fs.process_path(&now_in), outside.join("file"));

    // when both links are turned after their targets were resolved
    fixture.remove(&fixture.scratch().join("now_in"));
    fixture.remove(&fixture.scratch().join("now_out"));
    fixture.link("inside", "now_in");
    fixture.link("outside", "now_out");

    // then the fresh target counts, and is the one to change
    let allowed = writable_target(&**fs, &now_in, &policy).await.unwrap();
    assert_eq!(fs.process_path(&allowed), inside.join("file"));
    let denied = writable_target(&**fs, &now_out, &policy).await;
    assert_eq!(code(denied), "FS_SANDBOX_DENIED");
    if fs.facts().mutation {
        let chain = PolicyChain::default();
        guarded(fixture, &chain, "a", &policy)
            .write_text(&now_in, "x", &WriteOptions::default())
            .await
            .unwrap();
        assert_eq!(text(fixture, "inside/file").await, "x");
        assert_eq!(
            fs.list_dir(&fixture.target("outside").await)
                .await
                .unwrap()
                .len(),
            0
        );
    }
}

pub(crate) async fn a_link_put_in_after_the_check_is_not_followed(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    if !(fs.facts().mutation && fs.facts().handle_relative) {
        return;
    }
    // given a target that the fence allowed
    let inside = fixture.folder("inside/folder");
    fixture.put("outside/file", b"old");
    let target = fixture.target("inside/folder/file").await;
    let policy = workspace(&fixture.scratch().join("inside"));
    let allowed = writable_target(&**fs, &target, &policy).await.unwrap();

    // when its folder becomes a link out of the root before the change
    fixture.remove(&inside);
    fixture.link("../outside", "inside/folder");
    let written = fs
        .write_text(&allowed, "new", &WriteOptions::default())
        .await;
    let edited = fs
        .edit_text(&allowed, &replace("old", "new"), &EditOptions::default())
        .await;

    // then nothing changes where the link leads
    assert!(written.is_err() && edited.is_err());
    assert_eq!(text(fixture, "outside/file").await, "old");
}

pub(crate) async fn a_root_itself_fails_on_its_kind_alone(fixture: &impl Fixture) {
    let inside = fixture.folder("inside");
    let policy = workspace(&inside);

    assert_eq!(fenced(fixture, "inside", &policy).await, Ok(inside));
    if fixture.world().fs().facts().mutation {
        let chain = PolicyChain::default();
        let written = guarded(fixture, &chain, "a", &policy)
            .write_text(
                &fixture.target("inside").await,
                "",
                &WriteOptions::default(),
            )
            .await;
        assert_eq!(code(written), "FS_NOT_REGULAR_FILE");
    }
}

pub(crate) async fn the_root_of_all_files_allows_them_all(fixture: &impl Fixture) {
    let new = fixture.scratch().join("a/new");

    assert_eq!(
        fenced(fixture, "a/new", &workspace(Path::new("/"))).await,
        Ok(new)
    );
}

pub(crate) async fn a_wider_mode_counts_for_its_call_alone(fixture: &impl Fixture) {
    let inside = fixture.folder("inside");
    let read_only = confined(SandboxMode::ReadOnly, &[&inside]);
    let calls = [
        ("inside/a", read_only.clone(), false),
        ("inside/a", workspace(&inside), true),
        ("outside", workspace(&inside), false),
        ("outside", SandboxPolicy::unconfined(), true),
        ("outside", workspace(&inside), false),
        ("inside/a", read_only, false),
    ];
    for (path, policy, is_allowed) in calls {
        assert_eq!(
            fenced(fixture, path, &policy).await.is_ok(),
            is_allowed,
            "{path} in {:?}",
            policy.mode
        );
    }
}

pub(crate) async fn a_denial_is_told_from_a_refusal_of_the_system(fixture: &impl Fixture) {
    let policy = confined(SandboxMode::ReadOnly, &[]);
    let target = fixture.target("some/file").await;

    let denial = writable_target(&**fixture.world().fs(), &target, &policy)
        .await
        .unwrap_err();

    assert_eq!(denial.code(), "FS_SANDBOX_DENIED");
    let shown = denial.to_string();
    assert!(
        shown.contains("some/file") && shown.contains("ReadOnly"),
        "{shown}"
    );
}

pub(crate) async fn a_file_in_a_folders_place_is_no_way_in(fixture: &impl Fixture) {
    // given a target below a folder that becomes a file
    let folder = fixture.folder("inside/folder");
    let target = fixture.target("inside/folder/x").await;
    fixture.remove(&folder);
    fixture.put("inside/folder", b"");
    let policy = workspace(&fixture.scratch().join("inside"));

    let fenced = writable_target(&**fixture.world().fs(), &target, &policy).await;

    assert_eq!(code(fenced), "FS_NOT_FOUND");
}

/// An observation policy that is mounted alone.
fn observing() -> (Arc<ObservationPolicy>, PolicyChain) {
    let policy = Arc::new(ObservationPolicy::new(NonZeroUsize::new(100).unwrap()));
    let mut chain = PolicyChain::default();
    chain.mount(&policy);
    (policy, chain)
}

fn guarded<'a>(
    fixture: &'a impl Fixture,
    chain: &'a PolicyChain,
    actor: &'a str,
    sandbox: &'a SandboxPolicy,
) -> GuardedFiles<'a> {
    GuardedFiles {
        fs: &**fixture.world().fs(),
        chain,
        actor,
        sandbox,
    }
}

fn replace(old_text: &str, new_text: &str) -> EditRequest {
    EditRequest {
        old_text: old_text.to_owned(),
        new_text: new_text.to_owned(),
        replace_all: false,
    }
}

fn code<T>(result: Result<T, FsError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(error) => error.code(),
    }
}

async fn text(fixture: &impl Fixture, path: &str) -> String {
    let target = fixture.target(path).await;
    fixture.world().fs().read_text(&target).await.unwrap().text
}

/// One actor's files under an observation policy, with the steps that the tests take.
struct Session<'a> {
    files: GuardedFiles<'a>,
}

impl Session<'_> {
    async fn read(&self, target: &Target) -> &'static str {
        code(self.files.read_text(target).await)
    }

    async fn write(&self, target: &Target, text: &str) -> &'static str {
        let options = WriteOptions::default();
        code(self.files.write_text(target, text, &options).await)
    }

    async fn edit(&self, target: &Target, old: &str, new: &str) -> &'static str {
        let options = EditOptions::default();
        code(
            self.files
                .edit_text(target, &replace(old, new), &options)
                .await,
        )
    }
}

/// Runs `steps` as actor `a` of a fresh observation policy, on a provider that can change files.
macro_rules! observed_session {
    ($fixture:expr, $session:ident) => {
        if !$fixture.world().fs().facts().mutation {
            return;
        }
        let (_policy, chain) = observing();
        let unconfined = SandboxPolicy::unconfined();
        let $session = Session {
            files: guarded($fixture, &chain, "a", &unconfined),
        };
    };
}

pub(crate) async fn a_new_file_has_exactly_the_given_text(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    let target = fixture.target("folder/new").await;

    assert_eq!(session.write(&target, "a\r\nb\n\u{feff}c").await, "ok");

    assert_eq!(text(fixture, "folder/new").await, "a\r\nb\n\u{feff}c");
}

pub(crate) async fn an_unread_file_is_not_overwritten_until_it_is_read(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    fixture.put("file", b"theirs");
    let target = fixture.target("file").await;

    assert_eq!(session.write(&target, "mine").await, "FS_NOT_OBSERVED");
    assert_eq!(
        session.edit(&target, "theirs", "x").await,
        "FS_NOT_OBSERVED"
    );
    assert_eq!(text(fixture, "file").await, "theirs");

    assert_eq!(session.read(&target).await, "ok");
    assert_eq!(session.write(&target, "mine").await, "ok");
    assert_eq!(text(fixture, "file").await, "mine");
}

pub(crate) async fn a_change_since_the_read_is_stale_until_it_is_read(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    fixture.put("file", b"first");
    let target = fixture.target("file").await;
    session.read(&target).await;

    // when somebody else changes it
    fixture.put("file", b"second text");

    // then neither goes through, the version being judged before the text
    assert_eq!(session.write(&target, "mine").await, "FS_STALE_VERSION");
    assert_eq!(
        session.edit(&target, "no such text", "x").await,
        "FS_STALE_VERSION"
    );
    assert_eq!(session.read(&target).await, "ok");
    assert_eq!(session.edit(&target, "second", "third").await, "ok");
    assert_eq!(text(fixture, "file").await, "third text");
}

pub(crate) async fn a_part_that_was_read_allows_a_change_of_the_whole(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    fixture.put("file", b"one\ntwo\n");
    let target = fixture.target("file").await;
    let fs = fixture.world().fs();

    // given a face that reads the first piece alone and tells the chain
    let stream = fs.stream_text(&target).await.unwrap();
    let seen = Observation::Present(stream.version().clone());
    session.files.chain.observed(&target, "a", &seen);

    assert_eq!(session.edit(&target, "two", "2").await, "ok");
}

pub(crate) async fn an_own_change_allows_the_next_one(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    let target = fixture.target("file").await;

    assert_eq!(session.write(&target, "one").await, "ok");
    assert_eq!(session.edit(&target, "one", "two").await, "ok");
    assert_eq!(session.edit(&target, "two", "three").await, "ok");
    assert_eq!(session.write(&target, "four").await, "ok");

    assert_eq!(text(fixture, "file").await, "four");
}

pub(crate) async fn a_file_that_was_read_as_missing_can_be_created_alone(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    let path = fixture.put("file", b"text");
    let target = fixture.target("file").await;
    session.read(&target).await;
    fixture.remove(&path);

    assert_eq!(session.read(&target).await, "FS_NOT_FOUND");
    assert_eq!(session.edit(&target, "text", "x").await, "FS_NOT_FOUND");
    assert_eq!(session.write(&target, "new").await, "ok");

    assert_eq!(text(fixture, "file").await, "new");
}

pub(crate) async fn a_read_past_the_policy_allows_nothing(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    fixture.put("file", b"text");
    let target = fixture.target("file").await;

    fixture.world().fs().read_text(&target).await.unwrap();

    assert_eq!(session.edit(&target, "text", "x").await, "FS_NOT_OBSERVED");
}

pub(crate) async fn aliases_are_one_observation(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    fixture.put("real/file", b"text");
    fixture.link("real", "alias");

    session.read(&fixture.target("alias/file").await).await;

    let target = fixture.target("real/file").await;
    assert_eq!(session.edit(&target, "text", "new").await, "ok");
}

pub(crate) async fn what_one_actor_saw_allows_another_nothing(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    fixture.put("file", b"text");
    let target = fixture.target("file").await;
    session.read(&target).await;

    let stranger = Session {
        files: GuardedFiles {
            actor: "b",
            ..session.files
        },
    };

    assert_eq!(stranger.edit(&target, "text", "b").await, "FS_NOT_OBSERVED");
    assert_eq!(session.edit(&target, "text", "a").await, "ok");
}

pub(crate) async fn of_two_changes_at_once_one_goes_through(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    fixture.put("file", b"text");
    let target = fixture.target("file").await;
    session.read(&target).await;

    let (first, second) = tokio::join!(
        session.edit(&target, "text", "first"),
        session.edit(&target, "text", "second")
    );

    // The edit that comes second may be asked about after the first was recorded: then its text is not there any more.
    let mut outcomes = [first, second];
    outcomes.sort_unstable();
    assert!(
        outcomes == ["FS_STALE_VERSION", "ok"] || outcomes == ["FS_EDIT_NOT_FOUND", "ok"],
        "{outcomes:?}"
    );
}

pub(crate) async fn without_a_policy_changes_are_unconditional(fixture: &impl Fixture) {
    if !fixture.world().fs().facts().mutation {
        return;
    }
    let (chain, unconfined) = (PolicyChain::default(), SandboxPolicy::unconfined());
    let session = Session {
        files: guarded(fixture, &chain, "a", &unconfined),
    };
    fixture.put("file", b"text");
    let target = fixture.target("file").await;

    assert_eq!(session.edit(&target, "text", "new").await, "ok");
    assert_eq!(session.write(&target, "newer").await, "ok");
    assert_eq!(
        session.edit(&target, "text", "x").await,
        "FS_EDIT_NOT_FOUND"
    );
}

pub(crate) async fn a_condition_of_the_callers_own_stands(fixture: &impl Fixture) {
    observed_session!(fixture, session);
    fixture.put("file", b"text");
    let target = fixture.target("file").await;
    let fs = fixture.world().fs();
    let version = fs.stat(&target).await.unwrap().unwrap().version;

    // given an actor that read nothing here, but names the version, as an answer gave it
    let by_version = WriteOptions {
        intent: Some(WriteIntent::ReplaceIfVersion(version.clone())),
        ..WriteOptions::default()
    };
    let written = session
        .files
        .write_text(&target, "mine", &by_version)
        .await
        .unwrap();
    assert_eq!(written.operation, WriteOperation::Updated);

    // when it names that version again, then it is judged by it and not by what it saw since
    let again = session.files.write_text(&target, "mine", &by_version).await;
    assert_eq!(code(again), "FS_STALE_VERSION");
    let by_version = EditOptions {
        intent: Some(EditIntent { version }),
        ..EditOptions::default()
    };
    let edited = session
        .files
        .edit_text(&target, &replace("mine", "x"), &by_version)
        .await;
    assert_eq!(code(edited), "FS_STALE_VERSION");
}

each_provider!([
    read_only_allows_no_change_and_every_read,
    only_what_lies_in_a_root_can_be_changed,
    no_folder_is_writable_by_itself,
    a_root_that_is_no_folder_allows_nothing,
    links_are_judged_by_where_they_lead,
    a_path_is_judged_as_it_resolves_now,
    a_link_put_in_after_the_check_is_not_followed,
    a_root_itself_fails_on_its_kind_alone,
    the_root_of_all_files_allows_them_all,
    a_wider_mode_counts_for_its_call_alone,
    a_denial_is_told_from_a_refusal_of_the_system,
    a_file_in_a_folders_place_is_no_way_in,
    a_new_file_has_exactly_the_given_text,
    an_unread_file_is_not_overwritten_until_it_is_read,
    a_change_since_the_read_is_stale_until_it_is_read,
    a_part_that_was_read_allows_a_change_of_the_whole,
    an_own_change_allows_the_next_one,
    a_file_that_was_read_as_missing_can_be_created_alone,
    a_read_past_the_policy_allows_nothing,
    aliases_are_one_observation,
    what_one_actor_saw_allows_another_nothing,
    of_two_changes_at_once_one_goes_through,
    without_a_policy_changes_are_unconditional,
    a_condition_of_the_callers_own_stands,
]);
