//! The report as JSON.
use serde_json::{Value, json};

use super::gather::{Gathered, Row};

/// `{"claims": [...]}`, one object a claim.
pub(super) fn claims(gathered: &Gathered) -> String {
    let claims: Vec<Value> = gathered.rows.iter().map(claim).collect();
    format!("{:#}\n", json!({ "claims": claims }))
}

fn claim(row: &Row) -> Value {
    let keys: Vec<&str> = row.calibrated_on.iter().map(|fact| fact.key.as_str()).collect();
    let paper = if row.paper.is_empty() { &row.claim.text } else { &row.paper };
    json!({
        "id": row.claim.id,
        "paper": paper,
        "model": text_or_null(&row.model),
        "measured": row.measured.as_ref().map(|measured| measured.value.as_str()),
        "verdict": row.verdict,
        "calibrated_on": keys,
        "reason": row.reason,
        "experiment": text_or_null(&row.experiment),
    })
}

fn text_or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::from(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_the_promised_keys() {
        let text = claims(crate::report::gather::gathered_once());
        let value: Value = serde_json::from_str(&text).unwrap();
        let claims = value["claims"].as_array().unwrap();
        assert_eq!(claims.len(), 86);
        for claim in claims {
            for key in ["id", "paper", "model", "measured", "verdict", "calibrated_on"] {
                assert!(claim.get(key).is_some(), "{key} is missing in {claim}");
            }
        }
    }
}
