//! Strict reading of the small methods' parameters: an unknown field is an error that names it.

use lspool_normalize::RpcError;
use serde_json::{Map, Value};

use super::StopRequest;

/// Parameters of a method that has none: absent, `null` or `{}`.
pub(super) fn none(parameters: &Value) -> Result<(), RpcError> {
    only(&object(parameters)?, &[])
}

/// The parameters of `lspool/stop`.
pub(super) fn stop(parameters: &Value) -> Result<StopRequest, RpcError> {
    let fields = object(parameters)?;
    only(&fields, &["instance", "force"])?;
    let instance = match fields.get("instance") {
        None | Some(Value::Null) => None,
        Some(Value::String(instance)) => Some(instance.clone()),
        Some(_) => {
            return Err(RpcError::invalid_params(
                "instance",
                "`instance` must be a string",
            ));
        }
    };
    let force = match fields.get("force") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(force)) => *force,
        Some(_) => {
            return Err(RpcError::invalid_params(
                "force",
                "`force` must be true or false",
            ));
        }
    };
    Ok(StopRequest { instance, force })
}

fn object(parameters: &Value) -> Result<Map<String, Value>, RpcError> {
    match parameters {
        Value::Null => Ok(Map::new()),
        Value::Object(fields) => Ok(fields.clone()),
        _ => Err(RpcError::invalid_params(
            "params",
            "the parameters must be an object",
        )),
    }
}

fn only(fields: &Map<String, Value>, known: &[&str]) -> Result<(), RpcError> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) if known.is_empty() => Err(RpcError::invalid_params(
            name,
            format!("`{name}` is not a field here; there are none"),
        )),
        Some(name) => Err(RpcError::invalid_params(
            name,
            format!(
                "`{name}` is not a field here; there are {}",
                known.join(", ")
            ),
        )),
    }
}
