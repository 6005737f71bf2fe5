//! What `Kit` of the Java side has of the core's kit.

use lockwright::binding::{Value, lost_track};
use lockwright::{Result, Token, kit as core};

use crate::reply::Reply;
use crate::wire::Request;

pub(crate) fn kit(request: &mut Request<'_>) -> Result<Reply> {
    Ok(match request.byte()? {
        0 => Reply::told(core::HEADER),
        1 => Reply::told(core::SET_SCRIPT),
        2 => Reply::told(core::sql_condition(&request.text()?, &request.text()?)?),
        3 => Reply::told(core::header_value(Token { epoch: request.number()?, n: request.number()? })),
        4 => Reply::told(match core::read_header(&request.text()?) {
            Some(token) => Value::List(vec![Value::Token(token.epoch), Value::Token(token.n)]),
            None => Value::Nothing,
        }),
        5 => Reply::told(Value::List(core::key_range(&request.text()?)?.map(|key| Value::Text(key.into())).into())),
        6 => Reply::told(core::advisory_key(&request.text()?)?.to_string()),
        _ => return Err(lost_track("kit")),
    })
}
