//! The processes of instances: starting them, hearing them, ending them.

use std::sync::Arc;
use std::time::Duration;

use lspool_world::{ProcessHandle, TreeMarker};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Driver, Input, ServerHandle, Starting};
use crate::core::{ClientId, Event, Generation, INITIALIZE_ID, InstanceId, Link, ServerLaunch};
use crate::edge::ServerEdge;
use crate::shell::link::Edge;
use crate::shell::process::{self, OutputWatch};
use crate::shell::stderr::{Audience, Stderr};

impl Driver {
    pub(super) fn spawn(
        &mut self,
        instance: InstanceId,
        generation: Generation,
        launch: &ServerLaunch,
    ) {
        let starting = Starting::default();
        let cancel = starting.cancel.clone();
        self.starting.insert((instance, generation), starting);
        let grace = Duration::from_millis(self.options.grace_ms);
        let spec = process::spec(launch, self.tree_marker(), grace, cancel);
        let start = process::start(
            self.options.world.clone(),
            spec,
            instance,
            generation,
            self.inputs(),
        );
        self.tasks.spawn(start);
    }

    /// The people who hear what an instance says, over all its processes.
    pub(super) fn audience(&mut self, instance: InstanceId) -> &watch::Sender<Audience> {
        self.audiences
            .entry(instance)
            .or_insert_with(|| watch::Sender::new(Audience::new()))
    }

    pub(super) fn set_audience(&mut self, instance: InstanceId, clients: &[ClientId]) {
        let people = clients
            .iter()
            .filter_map(|client| Some(self.clients.get(client)?.notices.clone()))
            .collect();
        self.audience(instance).send_replace(people);
    }

    /// A marker of its own for each tree: what carries it ends with the tree, and never with another.
    pub(super) fn tree_marker(&self) -> Option<TreeMarker> {
        let owner = self.options.marker.as_ref()?;
        Some(TreeMarker::unique(
            owner.name.clone(),
            &owner.value.to_string_lossy(),
        ))
    }

    pub(super) fn process_started(
        &mut self,
        instance: InstanceId,
        generation: Generation,
        result: Result<Arc<dyn ProcessHandle>, String>,
    ) {
        let starting = self.starting.remove(&(instance, generation));
        let end_at_once = starting.is_some_and(|start| {
            start.over.cancel();
            start.cancel.is_cancelled()
        });
        let process = match result {
            Ok(process) => process,
            Err(text) => {
                self.handle(Event::Spawned {
                    instance,
                    generation,
                    result: Err(text),
                });
                if end_at_once {
                    self.handle(Event::Terminated {
                        instance,
                        generation,
                        result: Ok(()),
                    });
                }
                return;
            }
        };
        let link = Link::Server(instance, generation);
        let (handle, queue) = Self::open_link();
        let output_read = CancellationToken::new();
        if let Some(stdout) = process.take_stdout() {
            let limits = self.framer_limits(true);
            let edge = Edge::Server(ServerEdge::new(INITIALIZE_ID));
            self.start_reader(link, stdout, edge, limits, &handle, output_read.clone());
        }
        if let Some(stdin) = process.take_stdin() {
            self.tasks
                .spawn(self.writer(link, stdin, queue, &handle).run());
        }
        let finished = CancellationToken::new();
        let (tail, stderr_tail) = oneshot::channel();
        if let Some(pipe) = process.take_stderr() {
            let audience = self.audience(instance).subscribe();
            let stderr = Stderr {
                pipe,
                audience,
                finished: finished.clone(),
                tail,
            };
            self.tasks.spawn(stderr.run());
        }
        let output = OutputWatch {
            stdout_read: output_read,
            finished,
            stderr_tail,
        };
        self.tasks.spawn(process::wait(
            process.clone(),
            instance,
            generation,
            output,
            self.inputs(),
        ));
        let pid = process.pid();
        self.servers.insert(
            (instance, generation),
            ServerHandle {
                link: handle,
                process,
            },
        );
        if end_at_once {
            self.terminate(instance, generation);
        }
        self.handle(Event::Spawned {
            instance,
            generation,
            result: Ok(pid),
        });
    }

    pub(super) fn terminate(&mut self, instance: InstanceId, generation: Generation) {
        if let Some(server) = self.servers.get(&(instance, generation)) {
            let end =
                process::terminate(server.process.clone(), instance, generation, self.inputs());
            self.tasks.spawn(end);
        } else if let Some(starting) = self.starting.get(&(instance, generation)) {
            starting.cancel.cancel();
            let over = starting.over.clone();
            let inputs = self.inputs();
            let end = process::given_up(over, instance, generation, inputs);
            self.tasks.spawn(end);
        } else {
            // There is nothing to end; the answer comes as an event of its own, as for every other end.
            let inputs = self.inputs();
            self.tasks.spawn(async move {
                let _ = inputs
                    .send(Input::Terminated {
                        instance,
                        generation,
                        result: Ok(()),
                    })
                    .await;
            });
        }
    }
}
