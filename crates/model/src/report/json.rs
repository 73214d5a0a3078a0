//! The report as JSON: numbers with units and tolerances, parameters with sources, plots as CSV.
use serde_json::{Value, json};

use super::Made;
use super::cite;
use super::gather::{Drawn, Gathered, Row};
use crate::claim::{Check, Verdict};

/// One object: `made`, `counts`, `papers`, `claims`, `plots`.
pub(super) fn report(gathered: &Gathered, made: &Made) -> String {
    let counts: serde_json::Map<String, Value> = Verdict::ALL
        .iter()
        .zip(gathered.summary().counts)
        .map(|(verdict, count)| (verdict.name().to_string(), count.into()))
        .collect();
    let papers: Vec<Value> = gathered
        .papers
        .iter()
        .map(|paper| {
            json!({
                "id": paper.id,
                "name": paper.name,
                "title": paper.title,
                "original_title": paper.citation.original_title,
                "authors": paper.citation.authors,
                "published": paper.citation.published,
                "bibtex": cite::bibtex(paper),
                "parameters_hash": format!("{:016x}", (paper.parameters)().fingerprint()),
                "tolerance": paper.rules.closeness(),
            })
        })
        .collect();
    let object = json!({
        "made": {
            "date": made.date,
            "version": made.version,
            "commit": made.commit,
            "parameters_hash": cite::parameters_hash(gathered.papers),
        },
        "counts": counts,
        "papers": papers,
        "claims": gathered.rows.iter().map(claim).collect::<Vec<_>>(),
        "plots": gathered.plots.iter().map(plot).collect::<Vec<_>>(),
    });
    format!("{object:#}\n")
}

fn check(check: &Check) -> Value {
    json!({
        "what": check.what,
        "value": check.value,
        "unit": check.unit,
        "limit": check.limit,
        "holds": check.holds(),
        "refuted_by": check.refutation(),
    })
}

fn claim(row: &Row) -> Value {
    let result = row.result.as_ref();
    json!({
        "id": row.claim.id,
        "text": row.claim.text,
        "paper": text_or_null(&row.paper),
        "verdict": row.verdict,
        "model": result.map(|result| result.model.as_str()),
        "checks": result.map(|result| result.checks.iter().map(check).collect::<Vec<_>>()),
        "readings": result.map(|result| &result.readings),
        "readings_together": result.map(|result| &result.joint),
        "reason": result.map(|result| result.reason.as_str()),
        "finding": result.and_then(|result| result.finding.as_deref()),
        "calibrated_on": result.map(|result| &result.calibrated_on),
        "own_facts_read": result.map(|result| &result.own),
        "fit": result.and_then(|result| result.fit),
        "at_the_defaults": result.and_then(|result| result.on_defaults.as_ref()),
        "parameters": result.map(|result| &result.parameters),
        "sensitivity": row.sensitivity,
        "measured": row.measured,
        "experiment": text_or_null(&row.experiment),
    })
}

fn plot(drawn: &Drawn) -> Value {
    json!({
        "paper": drawn.paper,
        "experiment": drawn.experiment,
        "figure": drawn.plot.figure,
        "title": drawn.plot.title,
        "csv": drawn.plot.to_csv(),
    })
}

fn text_or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::from(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_numbers_units_and_limits() {
        let text = report(crate::report::gather::gathered_once(), &Made::default());
        let value: Value = serde_json::from_str(&text).unwrap();
        let claims = value["claims"].as_array().unwrap();
        assert_eq!(claims.len(), 86);
        for claim in claims.iter().filter(|claim| claim["verdict"] != "nothing-to-test") {
            let checks = claim["checks"].as_array().unwrap();
            assert!(!checks.is_empty() && claim["parameters"].is_array(), "{claim}");
            assert!(checks.iter().all(|check| check["value"].is_number() && !check["limit"].is_null()), "{claim}");
        }
        assert!(value["plots"].as_array().unwrap().iter().all(|plot| plot["csv"].as_str().unwrap().lines().count() > 1));
    }
}
