//! What a look at a lock tells, as JavaScript has it.

use std::time::Duration;

use js_sys::{Array, Object, Reflect};
use lockwright_machines::guarantee::Guarantees;
use lockwright_machines::lease::{Holder, Inspection, Waiting};
use lockwright_machines::ping::may_evict;
use lockwright_machines::share::Primitive;
use wasm_bindgen::prelude::*;

/// A plain object; what is undefined is left out.
pub(crate) fn object<const N: usize>(entries: [(&str, JsValue); N]) -> JsValue {
    let object = Object::new();
    for (name, value) in entries {
        if !value.is_undefined() {
            // A plain object takes every property.
            let _ = Reflect::set(&object, &name.into(), &value);
        }
    }
    object.into()
}

fn milliseconds(span: Duration) -> JsValue {
    // A lease of another library's that has no end.
    if span == Duration::MAX { f64::INFINITY.into() } else { (span.as_secs_f64() * 1e3).into() }
}

fn holder(holder: Holder) -> JsValue {
    object([
        ("owner", holder.owner.into()),
        ("host", holder.card.host.into()),
        ("pid", holder.card.pid.into()),
        ("language", holder.card.language.into()),
        ("label", holder.card.label.into()),
        ("heldFor", holder.held_for.map_or(JsValue::UNDEFINED, milliseconds)),
        ("remaining", milliseconds(holder.remaining)),
        ("firstToken", holder.first_token.into()),
        ("lastToken", holder.last_token.into()),
    ])
}

fn waiting(waiting: &Waiting, primitive: Option<Primitive>) -> JsValue {
    object([
        ("host", (&*waiting.card.host).into()),
        ("pid", waiting.card.pid.into()),
        ("language", (&*waiting.card.language).into()),
        ("label", (&*waiting.card.label).into()),
        ("waited", waiting.waited.map_or(JsValue::UNDEFINED, milliseconds)),
        ("rank", waiting.rank.into()),
        ("wants", primitive.map_or(JsValue::UNDEFINED, |primitive| waiting.describe(primitive).into())),
    ])
}

/// What a ping tells of a store's memory.
pub(crate) fn eviction(policy: Option<String>) -> JsValue {
    let may_evict = may_evict(policy.as_deref());
    object([("eviction", policy.into()), ("mayEvict", may_evict.into())])
}

pub(crate) fn guarantees(promised: &Guarantees) -> JsValue {
    object([
        ("store", promised.store.into()),
        ("layout", promised.layout.into()),
        ("exclusiveUntil", promised.exclusive_until.to_string().into()),
        ("token", promised.token.to_string().into()),
        ("fair", promised.fair.into()),
        ("reentrant", promised.reentrant.into()),
        ("shared", promised.shared.into()),
        ("push", promised.push.into()),
        ("survivesDisconnect", promised.survives_disconnect.into()),
        ("incarnation", promised.incarnation.into()),
        ("notes", promised.notes.iter().map(|note| JsValue::from(*note)).collect::<Array>().into()),
    ])
}

pub(crate) fn inspection(seen: Inspection) -> JsValue {
    let primitive = seen.shared.as_ref().map(|shared| shared.primitive);
    let queue: Array = seen.queue.iter().map(|one| waiting(one, primitive)).collect();
    let shared = seen.shared.map_or(JsValue::UNDEFINED, |shared| {
        let primitive = shared.primitive;
        let part = |part: lockwright_machines::lease::Part| {
            object([("holds", part.describe(primitive).into()), ("holder", holder(part.holder))])
        };
        object([
            ("primitive", primitive.name().into()),
            ("permits", shared.permits.into()),
            ("holders", shared.holders.into_iter().map(part).collect::<Array>().into()),
            ("unlisted", (shared.unlisted as f64).into()),
        ])
    });
    object([
        ("name", seen.name.into()),
        ("layout", seen.layout.into()),
        ("holder", seen.holder.map_or(JsValue::UNDEFINED, holder)),
        ("waiters", (seen.waiters as f64).into()),
        ("ahead", seen.ahead.into_iter().map(JsValue::from).collect::<Array>().into()),
        ("queue", queue.into()),
        ("primitive", seen.primitive.into()),
        ("shared", shared),
        ("latch", seen.latch.map_or(JsValue::UNDEFINED, |latch| object([("count", latch.count.into())]))),
    ])
}
