//! What a client is told: a status and one JSON object.

use crate::bindings::locks::Error;

/// Why nothing was claimed.
pub(crate) struct Refusal {
    status: u16,
    code: String,
    text: String,
    advice: String,
    retryable: bool,
}

impl Refusal {
    pub(crate) fn of(status: u16, code: &str, text: &str, advice: &str) -> Refusal {
        Refusal { status, code: code.to_owned(), text: text.to_owned(), advice: advice.to_owned(), retryable: false }
    }

    /// The same, of what may have been done nevertheless.
    pub(crate) fn in_doubt(self) -> Refusal {
        let text = format!("{}; whether one was claimed is not known", self.text);
        Refusal { text, advice: "look at the stock before trying again".to_owned(), ..self }
    }

    pub(crate) fn retryable(self) -> Refusal {
        Refusal { retryable: true, ..self }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let (status, details) = match error {
            Error::Timeout(details) => (504, details),
            Error::Unavailable(details)
            | Error::Auth(details)
            | Error::Protocol(details)
            | Error::Lost(details)
            | Error::NotOwned(details)
            | Error::Closed(details)
            | Error::ForeignLayout(details) => (503, details),
            Error::InvalidConfig(details) | Error::Unsupported(details) | Error::Internal(details) => (500, details),
        };
        Refusal { status, code: details.code, text: details.text, advice: details.advice, retryable: details.retryable }
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) json: String,
}

impl Answer {
    /// The token is a text: JavaScript's numbers are not exact so far up.
    pub(crate) fn claimed(coupon: &str, left: u64, token: u64) -> Answer {
        let json = format!(r#"{{"coupon":"{coupon}","claimed":true,"left":{left},"token":"{token}"}}"#);
        Answer { status: 200, json }
    }

    pub(crate) fn sold_out(coupon: &str) -> Answer {
        Answer { status: 410, json: format!(r#"{{"coupon":"{coupon}","claimed":false,"left":0}}"#) }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        let Refusal { status, code, text, advice, retryable } = refusal;
        let [code, text, advice] = [code, text, advice].map(|text| quoted(&text));
        let json =
            format!(r#"{{"claimed":false,"code":{code},"error":{text},"advice":{advice},"retryable":{retryable}}}"#);
        Answer { status, json }
    }
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => json.extend(['\\', char]),
            '\0'..='\x1f' => json.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => json.push(char),
        }
    }
    json.push('"');
    json
}
