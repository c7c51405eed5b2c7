//! Requests of servers: each gets exactly one answer, also when nobody is attached and when the client that
//! was asked dies first.

use crate::edge::Decoded;
use crate::wire::{Message, RawId, quoted};

use super::Core;
use super::effect::Effect;
use super::event::Frame;
use super::from_client::METHOD_NOT_FOUND;
use super::ids::{ClientId, InstanceId};
use super::instance::{self, Ask, Requester, SettingsQuestion};
use super::neutral::neutral_answer;

impl Core {
    pub(super) fn request_from_server(
        &mut self,
        target: InstanceId,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(id) = frame.message.id().cloned() else {
            return;
        };
        let method = frame
            .message
            .method()
            .map(std::borrow::Cow::into_owned)
            .unwrap_or_default();
        match &frame.decoded {
            Decoded::Register(registrations) => {
                self.answer_server(target, &id, "null", out);
                self.register(target, registrations, out);
            }
            Decoded::Unregister(entries) => {
                self.answer_server(target, &id, "null", out);
                self.unregister(target, entries, &frame.message, out);
            }
            Decoded::CreateProgress { token } => {
                self.answer_server(target, &id, "null", out);
                let kept = instance::Progress {
                    begin: None,
                    report: None,
                };
                if let Some(instance) = self.instances.get_mut(&target) {
                    instance.progress.insert(token.token.clone(), kept);
                }
                self.tell_all_by_request(target, &method, &frame.message, out);
            }
            Decoded::AskConfiguration(sections) => {
                let neutral = self.pool_settings(target, sections);
                let question = SettingsQuestion {
                    message: frame.message.clone(),
                    failed: Vec::new(),
                };
                self.ask_settings(target, id, question, neutral, out);
            }
            _ if method == "workspace/workspaceFolders" => {
                let answer = self.folders_told(target);
                self.answer_server(target, &id, &answer, out);
            }
            _ if is_refresh(&method) => {
                self.answer_server(target, &id, "null", out);
                self.tell_all_by_request(target, &method, &frame.message, out);
            }
            _ => match self.client_to_ask(target, &method) {
                Some(client) => {
                    let ask = Ask {
                        client,
                        number: self.next_request(),
                        neutral: neutral_answer(&method).map(str::to_owned),
                        settings: None,
                    };
                    self.ask_client(target, id, ask, &frame.message, out);
                }
                None => self.answer_neutrally(target, &id, neutral_answer(&method), out),
            },
        }
    }

    pub(super) fn answer_server(
        &mut self,
        target: InstanceId,
        id: &RawId,
        result: &str,
        out: &mut Vec<Effect>,
    ) {
        self.send_to_server(target, Message::result(id, result), out);
    }

    pub(super) fn answer_neutrally(
        &mut self,
        target: InstanceId,
        id: &RawId,
        neutral: Option<&str>,
        out: &mut Vec<Effect>,
    ) {
        let message = match neutral {
            Some(result) => Message::result(id, result),
            None => Message::error(
                id,
                METHOD_NOT_FOUND,
                "no attached client answers this method",
                None,
            ),
        };
        self.send_to_server(target, message, out);
    }

    fn folders_told(&self, target: InstanceId) -> String {
        let folders = self
            .instances
            .get(&target)
            .map(|it| it.folders_as_sent.clone())
            .unwrap_or_default();
        if folders.is_empty() {
            return "null".to_owned();
        }
        let items: Vec<String> = folders
            .iter()
            .map(|uri| {
                let name = uri.trim_end_matches('/').rsplit('/').next().unwrap_or(uri);
                format!(r#"{{"uri":{},"name":{}}}"#, quoted(uri), quoted(name))
            })
            .collect();
        format!("[{}]", items.join(","))
    }

    /// Who is asked: the client whose command is in flight, else whose request is, else the last active one.
    fn client_to_ask(&self, target: InstanceId, method: &str) -> Option<ClientId> {
        let instance = self.instances.get(&target)?;
        if !instance.serves() {
            return None;
        }
        let able = |id: &ClientId| {
            self.clients
                .get(id)
                .is_some_and(|client| client.can_be_asked() && client.announced(method))
        };
        let causing = |commands_only: bool| {
            instance
                .pending
                .values()
                .rev()
                .find_map(|pending| match &pending.requester {
                    Requester::Client(id, _)
                        if able(id)
                            && (!commands_only || pending.method == "workspace/executeCommand") =>
                    {
                        Some(*id)
                    }
                    _ => None,
                })
        };
        causing(true).or_else(|| causing(false)).or_else(|| {
            let able = instance.clients.iter().copied().filter(able);
            able.max_by_key(|id| self.clients.get(id).map_or(0, |client| client.activity))
        })
    }
}

/// Requests that only tell every client to ask again.
fn is_refresh(method: &str) -> bool {
    method.starts_with("workspace/") && method.ends_with("/refresh")
}
