//! The custom methods of a connection: passed to the face, answered once.

use lspool_normalize::RpcError;

use crate::wire::{Message, RawId};

use super::Core;
use super::effect::Effect;
use super::event::Frame;
use super::ids::{CallId, ClientId};

impl Core {
    pub(super) fn call_from_client(
        &mut self,
        id: ClientId,
        request: RawId,
        method: &str,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        self.next.call += 1;
        let call = CallId(self.next.call);
        self.calls.insert(call, id);
        if let Some(client) = self.clients.get_mut(&id) {
            client.calls.insert(request, call);
        }
        let params = frame.message.params().map(str::to_owned);
        out.push(Effect::Call {
            call,
            client: id,
            method: method.to_owned(),
            params,
        });
    }

    pub(super) fn call_done(
        &mut self,
        call: CallId,
        result: Result<String, Box<RpcError>>,
        out: &mut Vec<Effect>,
    ) {
        let Some(id) = self.calls.remove(&call) else {
            return;
        };
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let Some(request) = client
            .calls
            .iter()
            .find(|(_, at)| **at == call)
            .map(|(request, _)| request.clone())
        else {
            return;
        };
        client.calls.remove(&request);
        let message = match result {
            Ok(json) => Message::result(&request, &json),
            Err(error) => {
                let data = error
                    .data
                    .as_ref()
                    .and_then(|data| serde_json::to_string(data).ok());
                Message::error(&request, error.code, &error.message, data.as_deref())
            }
        };
        self.send_to_client(id, message.into(), out);
    }

    /// Ends the calls of a connection that is gone.
    pub(super) fn abandon_calls(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        for call in std::mem::take(&mut client.calls).into_values() {
            self.calls.remove(&call);
            out.push(Effect::CancelCall { call });
        }
    }
}
