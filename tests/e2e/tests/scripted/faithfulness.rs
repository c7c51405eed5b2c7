//! What is not changed by a named rule arrives byte for byte: every member but the id, in both directions.

use lspool_testkit::journal_entry::{Event, Message};
use lspool_testkit::scenario_format::{Action, Bytes};
use lspool_testkit::{Client, ClientReply, Journal, Kind, RuleBuilder, ScenarioBuilder, hash};

use super::ground::{Ground, eventually};

/// What stands for the raw id, as in the scenario format.
const ID: &str = "${id}";

/// Ids in every spelling that may come.
const IDS: [&str; 7] = [
    "0",
    "\"1\"",
    "-7",
    "1e2",
    "123456789012345678901234567890",
    "\"\\u00e9\"",
    "\"é\"",
];

/// Values that a parser would write anew in another way.
const ODD: &str = "{\"a\":1e2,\"b\":123456789012345678901234567890,\"c\":\"\\u00e9é\\/\",\"d\":-0.0,\"e\":1E+2,\
                   \"k\\u0065y\":[ ],\"twice\":1,\"twice\":2}";

/// Bodies around the members that a kind of message has (`"method":…,"params":` or `"result":` before the value).
fn bodies(head: &str) -> Vec<String> {
    vec![
        // members that nobody knows, beside the known ones
        format!(
            r#"{{"jsonrpc":"2.0","id":{ID},{head}{{"a":1}},"extra":[1,2.50],"x-vendor":{{"id":5}}}}"#
        ),
        // other ids before the real one, which is last
        format!(
            r#"{{"jsonrpc":"2.0",{head}{{"id":77,"deep":[{{"id":"no"}}],"text":"\"id\":8"}},"id":{ID}}}"#
        ),
        format!(r#"{{"id":{ID},"jsonrpc":"2.0",{head}{ODD}}}"#),
        // spaces and line ends between all tokens
        format!(
            "{{ \r\n\t\"jsonrpc\" : \"2.0\" ,\r\n \"id\" :\r\n {ID} ,{head} [ 1 ,\r\n 2 ] \r\n}}"
        ),
    ]
}

/// A body without its id, as a notification has it.
fn without_id(body: &str) -> String {
    let before = ["\"id\":${id},", ",\"id\":${id}", "\"id\" :\r\n ${id} ,"];
    before
        .iter()
        .fold(body.to_owned(), |body, part| body.replace(part, ""))
}

fn send(body: String) -> Action {
    Action::Send(Bytes::Text(body))
}

/// A scenario that journals whole bodies and, on the n-th message with this method, sends the n-th body.
fn sending(scenario: ScenarioBuilder, method: &str, bodies: &[String]) -> ScenarioBuilder {
    let scenario = scenario.with(|scenario| {
        scenario.journal.bodies = true;
        scenario.journal.hash_over_bytes = 1 << 20;
    });
    (1..).zip(bodies).fold(scenario, |scenario, (nth, body)| {
        scenario.rule(
            RuleBuilder::method(method)
                .nth(nth)
                .act([send(body.clone())]),
        )
    })
}

/// The messages of one method that the server got, once there are so many.
fn got(journal: &Journal, method: &str, count: usize) -> Vec<Message> {
    journal.wait_for_received(method, count).unwrap()
}

#[test]
fn requests_and_results_keep_every_byte_but_the_id() {
    check_answers("\"result\":");
}

#[test]
fn requests_and_errors_keep_every_byte_but_the_id() {
    check_answers("\"error\":{\"code\":-5,\"message\":\"\\u00e9é\"},\"data\":");
}

/// Asks with each odd body under each odd id, and is answered by each odd body.
fn check_answers(head_of_answer: &str) {
    // given a server that answers with odd bodies
    let (requests, answers) = (
        bodies("\"method\":\"test/odd\",\"params\":"),
        bodies(head_of_answer),
    );
    let all_answers: Vec<String> = IDS.iter().flat_map(|_| answers.clone()).collect();
    let ground = Ground::new();
    let server = ground.server(&sending(ScenarioBuilder::new(), "test/odd", &all_answers));
    let editor = ground.editor(&server);
    let mut expected = all_answers.iter();
    let mut asked = Vec::new();

    for id in IDS {
        for request in &requests {
            // when an odd request is sent
            let body = request.replace(ID, id);
            let pending = editor
                .request_body(id, "test/odd", body.as_bytes())
                .unwrap();
            asked.push(request);

            // then its answer is the server's, with the id as it was spelled here
            let answer = pending.wait().unwrap();
            let wanted = expected.next().unwrap().replace(ID, id);
            assert_eq!(String::from_utf8_lossy(&answer.message.body), wanted);
        }
    }

    // and the server got each request with another id and nothing else changed
    let seen = got(&server.journal(), "test/odd", asked.len());
    for (message, request) in seen.iter().zip(asked) {
        let wanted = request.replace(ID, message.id.as_ref().unwrap());
        assert_eq!(message.body.as_ref(), Some(&wanted));
    }
    server.journal().assert_no_violations();
    drop(editor);
    ground.finish();
}

#[test]
fn notifications_keep_every_byte_both_ways() {
    // given a server that sends an odd notification for each that it gets
    let bodies: Vec<String> = bodies("\"method\":\"test/odd\",\"params\":")
        .iter()
        .map(|body| without_id(body))
        .collect();
    let ground = Ground::new();
    let server = ground.server(&sending(ScenarioBuilder::new(), "test/odd", &bodies));
    let editor = ground.editor(&server);

    // when the client sends the same ones
    for body in &bodies {
        editor.send_body(body.as_bytes()).unwrap();
    }

    // then they are the same on both sides
    let seen = got(&server.journal(), "test/odd", bodies.len());
    let seen: Vec<String> = seen
        .into_iter()
        .map(|message| message.body.unwrap())
        .collect();
    assert_eq!(seen, bodies);
    let here = || -> Vec<String> {
        let odd = editor.received().into_iter();
        odd.filter(|message| message.method.as_deref() == Some("test/odd"))
            .map(|message| String::from_utf8(message.body.to_vec()).unwrap())
            .collect()
    };
    eventually("the last notification", || {
        (here().len() == bodies.len()).then_some(())
    });
    assert_eq!(here(), bodies);
    drop(editor);
    ground.finish();
}

#[test]
fn requests_of_the_server_and_their_answers_keep_every_byte_but_the_id() {
    // given a server that asks in odd ways under odd ids, and a client that answers in odd ways
    let templates = bodies("\"method\":\"test/question\",\"params\":");
    let questions: Vec<String> = IDS
        .iter()
        .flat_map(|id| templates.iter().map(|body| body.replace(ID, id)))
        .collect();
    let mut replies = bodies("\"result\":");
    replies.extend(bodies(
        "\"error\":{\"code\":-5,\"message\":\"\\u00e9é\"},\"data\":",
    ));
    let ground = Ground::new();
    let server = ground.server(&sending(ScenarioBuilder::new(), "test/ask", &questions));
    let editor = ground.editor(&server);
    editor.on_request("test/question", {
        let replies = replies.clone();
        let count = std::sync::atomic::AtomicUsize::new(0);
        move |question| {
            let nth = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let reply = &replies[nth % replies.len()];
            ClientReply::Body(reply.replace(ID, question.id.as_ref().unwrap()))
        }
    });

    // when it asks, one question after the other since ids come again
    let answers: Vec<Message> = (1..=questions.len())
        .map(|count| {
            editor.notify_raw("test/ask", None).unwrap();
            nth_answer(&server.journal(), count)
        })
        .collect();

    // then each answer came back under the server's own id, otherwise as the client spelled it
    for (nth, (answer, id)) in answers
        .iter()
        .zip(IDS.iter().flat_map(|id| templates.iter().map(move |_| *id)))
        .enumerate()
    {
        assert_eq!(answer.id.as_deref(), Some(id));
        let wanted = replies[nth % replies.len()].replace(ID, id);
        assert_eq!(answer.body.as_ref(), Some(&wanted));
    }

    // and each question came as the server spelled it, but for its id
    let seen = editor.received().into_iter();
    let seen: Vec<_> = seen
        .filter(|message| message.method.as_deref() == Some("test/question"))
        .collect();
    for (message, template) in seen.iter().zip(templates.iter().cycle()) {
        let wanted = template.replace(ID, message.id.as_ref().unwrap());
        assert_eq!(String::from_utf8_lossy(&message.body), wanted);
    }
    assert_eq!(seen.len(), questions.len());
    drop(editor);
    ground.finish();
}

/// The answer of a client that the server got as its `count`-th, counted from 1.
fn nth_answer(journal: &Journal, count: usize) -> Message {
    journal
        .wait_for(&format!("answer {count}"), |entries| {
            let received = entries.iter().filter_map(|entry| match &entry.event {
                Event::Received(message) => Some(message),
                _ => None,
            });
            received
                .filter(|message| message.kind == Kind::Response)
                .nth(count - 1)
                .cloned()
        })
        .unwrap()
}

/// The hash of a body without the value of its id.
fn rest_hash(body: &str, id: &str) -> String {
    match body.split_once(id) {
        Some((before, after)) => hash::of_parts(&[before.as_bytes(), after.as_bytes()]),
        None => hash::of(body.as_bytes()),
    }
}

#[test]
fn twenty_megabytes_pass_unchanged_in_every_kind_of_message() {
    // given a server that sends what it gets in every kind of message
    let ground = Ground::new();
    let kinds = [
        (
            "test/result",
            r#"{"result":${params},"tail":1e2,"id":${id}}"#,
        ),
        (
            "test/error",
            r#"{"error":{"code":-5,"message":"m","data":${params}},"id":${id},"tail":1e2}"#,
        ),
        (
            "test/notification",
            r#"{"method":"test/large","params":${params},"tail":1e2}"#,
        ),
        (
            "test/request",
            r#"{"id":"ask","method":"test/question","params":${params},"tail":1e2}"#,
        ),
    ];
    let scenario = kinds
        .iter()
        .fold(ScenarioBuilder::new(), |scenario, (method, body)| {
            scenario.on(method, [send((*body).to_owned())])
        });
    let server = ground.server(&scenario);
    let editor = ground.editor(&server);
    let large = format!("{{\"text\":\"{}é\\u00e9\"}}", "x\\n".repeat(20_000_000 / 3));

    for (method, template) in kinds {
        // when 20 MB go to the server in a request or a notification, and come back in another kind of message
        let mark = editor.mark();
        let sent = exchange(&editor, method, &large);

        // then all of it is equal on both sides
        let seen = got(&server.journal(), method, 1).remove(0);
        assert_eq!(
            seen.rest_hash.as_ref(),
            Some(&sent),
            "{method} to the server"
        );
        let came = editor
            .wait_for_after(mark, method, |message| message.body.len() > 20_000_000)
            .unwrap();
        let wanted = template.replace("${params}", &large);
        let wanted = match method {
            "test/request" => rest_hash(&wanted, "\"ask\""),
            _ => rest_hash(&wanted, ID),
        };
        assert_eq!(came.rest_hash(), wanted, "{method} from the server");
        drop(came);
    }
    drop(editor);
    ground.finish();
}

/// Sends a large message of this method; gives the hash of all but its id.
fn exchange(editor: &Client, method: &str, large: &str) -> String {
    let body = format!(
        r#"{{"jsonrpc":"2.0","params":{large},"method":"{method}","tail":[1 ],"id":{ID}}}"#
    );
    if method == "test/result" || method == "test/error" {
        let id = format!("\"{method}\"");
        let pending = editor
            .request_body(&id, method, body.replace(ID, &id).as_bytes())
            .unwrap();
        pending.wait().unwrap();
        return rest_hash(&body, ID);
    }
    let body = without_id(&body);
    editor.send_body(body.as_bytes()).unwrap();
    rest_hash(&body, ID)
}
