//! What `ts/kit.ts` has of the core's kit.

use crate::error::{Answer, answer};
use lockwright::{Token, kit};
use napi::bindgen_prelude::BigInt;
use napi_derive::napi;

#[napi(catch_unwind)]
pub fn kit_header() -> &'static str {
    kit::HEADER
}

#[napi(catch_unwind)]
pub fn kit_set_script() -> &'static str {
    kit::SET_SCRIPT
}

#[napi(catch_unwind)]
pub fn kit_sql_condition(column: String, placeholder: String) -> Answer<String> {
    answer(kit::sql_condition(&column, &placeholder))
}

#[napi(catch_unwind)]
pub fn kit_key_range(key: String) -> Answer<Vec<String>> {
    answer(kit::key_range(&key).map(Into::into))
}

#[napi(catch_unwind)]
pub fn kit_advisory_key(key: String) -> Answer<BigInt> {
    answer(kit::advisory_key(&key).map(Into::into))
}

#[napi(catch_unwind)]
pub fn kit_header_value(epoch: BigInt, token: BigInt) -> String {
    kit::header_value(Token { epoch: epoch.get_u64().1, n: token.get_u64().1 })
}

/// The epoch and the token, or nothing.
#[napi(catch_unwind)]
pub fn kit_read_header(value: String) -> Vec<BigInt> {
    kit::read_header(&value).map_or_else(Vec::new, |token| vec![token.epoch.into(), token.n.into()])
}
