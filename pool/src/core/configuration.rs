//! The settings of an instance: those of the client that started it.

use crate::wire::{Message, RawId};

use super::Core;
use super::effect::Effect;
use super::event::Frame;
use super::ids::{ClientId, InstanceId};
use super::instance::{Ask, SettingsQuestion};

impl Core {
    /// What an instance that was just told `initialized` needs first.
    pub(super) fn instance_in_service(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        // A server that queries started has no editor that pushes its settings; several read none before.
        if !instance.clients.is_empty() || instance.configuration.is_some() {
            return;
        }
        let Some(settings) = instance
            .definition
            .as_ref()
            .map(|it| &it.settings)
            .filter(|it| !it.is_empty())
        else {
            return;
        };
        let settings = serde_json::Value::Object(settings.clone());
        let message = Message::notification(
            "workspace/didChangeConfiguration",
            &format!(r#"{{"settings":{settings}}}"#),
        );
        self.send_to_server(target, message, out);
    }

    /// A client's settings: those of the first client are the instance's.
    pub(super) fn client_configures(
        &mut self,
        id: ClientId,
        digest: u128,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(target) = self.first_instance(id) else {
            return;
        };
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let owner = instance.clients.first() == Some(&id);
        let same = digest == 0
            || instance
                .configuration
                .as_ref()
                .is_some_and(|(known, _)| *known == digest);
        if owner {
            instance.configuration = Some((digest, frame.message.clone()));
            self.forward_notification(id, frame, out);
        } else if !same {
            let text = format!(
                "lspool: settings of this editor differ from those of the editor that started {}; they are not applied to the shared server",
                instance.server
            );
            self.tell_client(id, 2, &text, out);
        }
    }

    pub(super) fn replay_configuration(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let known = self
            .instances
            .get(&target)
            .and_then(|instance| instance.configuration.as_ref());
        if let Some((_, message)) = known {
            let message = message.clone();
            self.send_to_server(target, message, out);
        }
    }

    /// The client whose settings are the instance's: its first one that answers such questions.
    fn configuration_source(&self, target: InstanceId, failed: &[ClientId]) -> Option<ClientId> {
        let instance = self.instances.get(&target)?;
        if !instance.serves() {
            return None;
        }
        instance.clients.iter().copied().find(|id| {
            !failed.contains(id)
                && self.clients.get(id).is_some_and(|client| {
                    client.can_be_asked() && client.announced("workspace/configuration")
                })
        })
    }

    /// The pool's own answer to `workspace/configuration`: the definition's settings, an empty object for the rest.
    pub(super) fn pool_settings(&self, target: InstanceId, sections: &[Option<String>]) -> String {
        let definition = self
            .instances
            .get(&target)
            .and_then(|instance| instance.definition.clone());
        let items: Vec<String> = sections
            .iter()
            .map(|section| {
                let known = definition
                    .as_ref()
                    .and_then(|definition| definition.setting(section.as_deref()));
                // One server is known to end itself on a null item, so an unknown section is an empty object.
                known.map_or_else(|| "{}".to_owned(), |value| value.to_string())
            })
            .collect();
        format!("[{}]", items.join(","))
    }

    /// Asks the next client whose settings may count; the pool's own are the answer when there is none.
    pub(super) fn ask_settings(
        &mut self,
        target: InstanceId,
        id: RawId,
        question: SettingsQuestion,
        neutral: String,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.configuration_source(target, &question.failed) else {
            return self.answer_server(target, &id, &neutral, out);
        };
        let message = question.message.clone();
        let ask = Ask {
            client,
            number: self.next_request(),
            neutral: Some(neutral),
            settings: Some(question),
        };
        self.ask_client(target, id, ask, &message, out);
    }
}
