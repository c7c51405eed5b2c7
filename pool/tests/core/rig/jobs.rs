//! What the shell does for the core, done at once or when the test says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use lspool_normalize::{
    Completeness, Envelope, Position, QueryRequest, QueryResult, TextSource, TextVersion, UriKey,
};
use lspool_pool::core::{Event, Job, JobId, JobOutcome, LaunchOutcome, RereadDocument, compose};
use lspool_pool::edge::{Text, TextId};
use lspool_pool::query::{EditorText, FinishInput, LaunchPlan, Prepared};
use lspool_pool::registry::{LaunchFacts, Registry};
use lspool_world::{Environment, TargetKey};

use super::{ROOT, ROOT_URI, Rig};

impl Rig {
    pub(super) fn start_job(&mut self, job: JobId, work: Job) {
        let held = match &work {
            Job::Launch { .. } => self.hold.launch,
            Job::Open { .. } | Job::Change { .. } => self.hold.compose,
            Job::Lower { .. } => self.hold.lower,
            Job::Prepare { .. } => self.hold.prepare,
            Job::Reread { .. } => self.hold.reread,
            Job::Finish { .. } => false,
        };
        self.jobs.insert(job, work);
        if !held {
            let event = self.finished_job(job);
            self.queue.push_back(event);
        }
    }

    /// Lets a held job come back.
    pub(crate) fn finish_job(&mut self, job: JobId) {
        let event = self.finished_job(job);
        self.handle(event);
    }

    /// Lets the oldest held job come to no outcome.
    pub(crate) fn fail_job(&mut self) {
        let (job, _) = self.jobs.pop_first().unwrap();
        let outcome = JobOutcome::Failed("no answer within 30 s".to_owned());
        self.handle(Event::JobDone { job, outcome });
    }

    /// Lets all held jobs come back, oldest first.
    pub(crate) fn finish_jobs(&mut self) {
        while let Some(job) = self.jobs.keys().next().copied() {
            self.finish_job(job);
        }
    }

    pub(super) fn finished_job(&mut self, job: JobId) -> Event {
        let work = self.jobs.remove(&job).unwrap();
        let outcome = match work {
            Job::Launch { argv, folder, .. } => JobOutcome::Launch(match &self.launch_refusal {
                Some(refusal) => Err(refusal.clone()),
                None => Ok(Box::new(launch(&argv[0].to_string_lossy(), folder))),
            }),
            Job::Open { .. } | Job::Change { .. } | Job::Lower { .. } => {
                JobOutcome::Composed(compose(&work).unwrap())
            }
            Job::Prepare {
                request,
                editor_texts,
                ..
            } => {
                let editor_text = editor_texts.get(&UriKey::new(&request.file)).cloned();
                JobOutcome::Prepared(Ok(self.prepare(&request, editor_text)))
            }
            Job::Reread { documents, .. } => JobOutcome::Reread(self.reread(&documents)),
            Job::Finish { input, .. } => {
                self.finished.push(input.clone());
                JobOutcome::Finished(Ok(Arc::new(result(&input))))
            }
        };
        Event::JobDone { job, outcome }
    }

    pub(super) fn prepare(
        &self,
        request: &QueryRequest,
        editor_text: Option<EditorText>,
    ) -> Arc<Prepared> {
        let (text, version) = &self.disk[&request.file];
        let registry = Registry::builtin();
        let plan = LaunchPlan {
            argv: vec!["/bin/clangd".into()],
            cwd: ROOT.into(),
            environment: Environment::default(),
            scrub: true,
            umask: 0o022,
            facts: facts("clangd-of-query"),
        };
        let text: Arc<str> = editor_text
            .as_ref()
            .map_or_else(|| text.as_str().into(), |editor| editor.text.clone());
        let prepared = Prepared {
            definition: registry.definition("clangd").unwrap().clone(),
            root_path: ROOT.into(),
            root_uri: ROOT_URI.to_owned(),
            root_key: root_key(),
            file_path: PathBuf::from(request.file.trim_start_matches("file://")),
            file_uri: request.file.clone(),
            asked_uri: request.file.clone(),
            file_key: root_key(),
            language_id: "c".to_owned(),
            text_id: TextId::of(&text),
            text,
            editor_text,
            file_version: version.to_string(),
            position: Position {
                line: 0,
                character: 4,
            },
            token: None,
            launch: Some(plan),
        };
        Arc::new(prepared)
    }

    pub(super) fn reread(&self, documents: &[(String, PathBuf, String)]) -> Vec<RereadDocument> {
        documents
            .iter()
            .filter_map(|(uri, _, known)| {
                let text = self
                    .disk
                    .get(uri)
                    .map(|(text, version)| (Text::from(text.as_str()), version.to_string()));
                let changed = text.as_ref().is_none_or(|(_, version)| version != known);
                changed.then(|| RereadDocument {
                    uri: uri.clone(),
                    text,
                })
            })
            .collect()
    }
}

fn root_key() -> TargetKey {
    static KEY: LazyLock<TargetKey> = LazyLock::new(|| {
        let options = lspool_world::local::LocalOptions {
            scrub_rules: lspool_world::ScrubRules::builtin(),
            inherited_output: lspool_world::local::InheritedOutput::Log,
            control_groups: None,
        };
        let world = lspool_world::World::local(options);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let target = runtime.block_on(world.fs().resolve(Path::new(ROOT), Path::new("/")));
        target.unwrap().key().clone()
    });
    KEY.clone()
}

fn facts(name: &str) -> LaunchFacts {
    LaunchFacts {
        executable: PathBuf::from("/bin").join(name),
        parts: BTreeMap::new(),
        digest: name.bytes().map(u128::from).sum(),
    }
}

fn launch(program: &str, folder: Option<String>) -> LaunchOutcome {
    LaunchOutcome {
        facts: facts(program),
        argv: vec![PathBuf::from("/bin").join(program).into_os_string()],
        cwd: ROOT.into(),
        environment: Environment::default(),
        umask: 0o022,
        root_key: folder.as_ref().map(|_| root_key()),
        root_path: folder.map(|_| ROOT.into()),
    }
}

fn result(input: &FinishInput) -> QueryResult {
    QueryResult::Locations {
        locations: Vec::new(),
        token: None,
        envelope: Envelope {
            servers: vec![input.server.clone()],
            completeness: Completeness::Unknown,
            reason: None,
            readiness: input.readiness,
            progress: input.progress.clone(),
            workspace_uri: input.prepared.root_uri.clone(),
            text: TextVersion {
                source: TextSource::Disk,
                version: input.prepared.file_version.clone(),
            },
            total: 0,
            truncated: false,
            cursor: None,
            dropped: 0,
            waited_ms: input.waited_ms,
            notes: input.notes.clone(),
        },
    }
}
