//! The papers' numbers, equations, claims and features, typed.
//!
//! The crate carries its own copy of the facts (`facts/facts.toml`), and `facts/claims.toml` says which facts a claim
//! itself states and which facts were derived from which, so that circular calibration is found ([`crate::claim`]).
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::reads;
use crate::table::Cell;
use crate::tolerance::Tolerance;
use crate::unit;

/// A fact's value as printed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Switch(bool),
    /// One number.
    Number(f64),
    /// A range or a set of numbers.
    Numbers(Vec<f64>),
    /// Words.
    Text(String),
    /// Several switches.
    Switches(Vec<bool>),
    /// Several words.
    Texts(Vec<String>),
}

impl Value {
    /// The numbers of a number, range or set; empty for words.
    pub fn numbers(&self) -> Vec<f64> {
        match self {
            Value::Number(number) => vec![*number],
            Value::Numbers(numbers) => numbers.clone(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: ToString>(items: &[T]) -> String {
            items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
        }
        match self {
            Value::Switch(is_on) => f.write_str(if *is_on { "yes" } else { "no" }),
            Value::Number(number) => write!(f, "{number}"),
            Value::Numbers(numbers) => f.write_str(&list(numbers)),
            Value::Text(text) => f.write_str(text),
            Value::Switches(switches) => f.write_str(&list(switches)),
            Value::Texts(texts) => f.write_str(&list(texts)),
        }
    }
}

/// How a printed value relates to the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Relation {
    /// Exact as printed.
    #[serde(rename = "=")]
    Equal,
    /// Printed as approximate.
    #[serde(rename = "~")]
    About,
    /// A lower bound.
    #[serde(rename = ">=")]
    AtLeast,
    /// An upper bound.
    #[serde(rename = "<=")]
    AtMost,
    /// A pair: low and high end.
    #[serde(rename = "range")]
    Range,
    /// A list.
    #[serde(rename = "set")]
    Set,
}

/// Where a fact comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// In the paper.
    Printed,
    /// Computed from printed values.
    Derived,
    /// Our reading; it may be wrong.
    Inferred,
    /// From outside the papers.
    Public,
}

/// One number or statement of a paper.
#[derive(Clone, Debug, Deserialize)]
pub struct Fact {
    /// Its name, `paper.topic.detail`.
    pub key: String,
    /// What is printed; it leaves through [`Fact::input`] or [`Fact::printed`].
    value: Value,
    /// The unit as in the paper.
    pub unit: String,
    /// The paper's id.
    pub paper: String,
    /// Section, table or figure.
    #[serde(rename = "where")]
    pub place: String,
    /// Exact, approximate, bound, range or set.
    pub rel: Relation,
    /// Printed, derived, inferred or public.
    pub status: Status,
    /// Whether it contradicts something else in the same paper.
    #[serde(default)]
    pub suspect: bool,
    /// A remark, empty where there is none.
    #[serde(default)]
    pub note: String,
}

impl Fact {
    /// The value as an input of a model. The read is recorded ([`crate::reads`]).
    pub fn input(&'static self) -> &'static Value {
        reads::fact(&self.key);
        &self.value
    }

    /// The value to be shown or compared with. Not recorded, so no model may compute with it.
    pub(crate) fn printed(&self) -> &Value {
        &self.value
    }

    /// What it is, in words made of its key: `Table 8, T_all, 1 node`.
    pub fn label(&self) -> String {
        let word = |part: &str| -> String {
            let digits = |prefix: char| {
                part.strip_prefix(prefix).filter(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
            };
            match (part, digits('t'), digits('p')) {
                (_, Some(table), _) => format!("Table {table}"),
                (_, _, Some("1")) => "1 node".to_string(),
                (_, _, Some(nodes)) => format!("{nodes} nodes"),
                ("t_all", ..) => "T_all".to_string(),
                ("t_calc", ..) => "T_calc".to_string(),
                ("t_barrier", ..) => "T_barrier".to_string(),
                ("n_page", ..) => "N_page".to_string(),
                ("n_flush", ..) => "N_flush".to_string(),
                ("nr0", ..) => "Nr_0".to_string(),
                ("nw0", ..) => "Nw_0".to_string(),
                ("env", ..) => "environment".to_string(),
                ("check", ..) => "derived".to_string(),
                ("mm", ..) => "matrix product".to_string(),
                ("him", ..) => "Himeno".to_string(),
                ("wis", ..) => "Wisconsin".to_string(),
                ("speedup2", ..) => "gain on 2 nodes".to_string(),
                _ => part.replace('_', " "),
            }
        };
        self.key.split('.').skip(1).map(word).collect::<Vec<_>>().join(", ")
    }

    /// The value with its unit and place, as `48 MB/s [RF §5]`, for people.
    pub fn named(&self) -> String {
        format!("{} {}", format!("{} {}", self.value, self.unit).trim_end(), self.citation())
    }

    /// Whether a model that produces it is held to it: printed, and not suspect.
    pub fn is_asserted(&self) -> bool {
        self.status == Status::Printed && !self.suspect
    }

    /// Where it stands, as `[D2 Table 4]`.
    pub fn citation(&self) -> String {
        let prefix = self.key.split('.').next().unwrap_or_default().to_uppercase();
        let spelled = self.place.starts_with(|first: char| first.is_ascii_digit());
        format!("[{prefix} {}{}]", if spelled { "§" } else { "" }, self.place)
    }
}

/// One equation of a paper, in Python syntax.
#[derive(Clone, Debug, Deserialize)]
pub struct Equation {
    /// Its name.
    pub key: String,
    /// The paper's id.
    pub paper: String,
    /// Its number or section.
    #[serde(rename = "where")]
    pub place: String,
    /// Left side.
    pub lhs: String,
    /// Right side.
    pub expr: String,
    /// What the symbols mean.
    pub symbols: String,
    /// Unit of the left side.
    pub unit: String,
    /// Whether it does not reproduce the paper's own tables.
    #[serde(default)]
    pub suspect: bool,
    /// A remark, empty where there is none.
    #[serde(default)]
    pub note: String,
}

/// One statement of a paper that can be true or false.
#[derive(Clone, Debug, Deserialize)]
pub struct Claim {
    /// `D2-C10` and so on.
    pub id: String,
    /// The paper's id.
    pub paper: String,
    /// The statement, with its section in front.
    pub text: String,
}

/// One mechanism or program of a paper.
#[derive(Clone, Debug, Deserialize)]
pub struct Feature {
    /// `D2-F5` and so on.
    pub id: String,
    /// The paper's id.
    pub paper: String,
    /// Its text.
    pub text: String,
}

#[derive(Deserialize)]
struct FactsFile {
    fact: Vec<Fact>,
    equation: Vec<Equation>,
    claim: Vec<Claim>,
    feature: Vec<Feature>,
}

#[derive(Deserialize)]
struct ClaimsFile {
    qualitative: Vec<String>,
    states: BTreeMap<String, Vec<String>>,
    derived: BTreeMap<String, Vec<String>>,
    computed: BTreeMap<String, Vec<String>>,
}

/// All facts of the five papers.
pub struct Facts {
    /// Every number, by key.
    pub facts: BTreeMap<String, Fact>,
    /// Every equation, by key.
    pub equations: BTreeMap<String, Equation>,
    /// Every claim, in the papers' order.
    pub claims: Vec<Claim>,
    /// Every feature, in the papers' order.
    pub features: Vec<Feature>,
    states: BTreeMap<String, Vec<String>>,
    derived: BTreeMap<String, Vec<String>>,
    computed: BTreeMap<String, Vec<String>>,
    qualitative: Vec<String>,
}

/// The facts, read once.
pub fn facts() -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(Facts::read)
}

impl Facts {
    fn read() -> Facts {
        let file: FactsFile = toml::from_str(include_str!("../facts/facts.toml"))
            .expect("facts.toml is part of the crate and is read by its tests");
        let links: ClaimsFile = toml::from_str(include_str!("../facts/claims.toml"))
            .expect("claims.toml is part of the crate and is read by its tests");
        Facts {
            facts: file.fact.into_iter().map(|fact| (fact.key.clone(), fact)).collect(),
            equations: file.equation.into_iter().map(|equation| (equation.key.clone(), equation)).collect(),
            claims: file.claim,
            features: file.feature,
            states: links.states,
            derived: links.derived,
            computed: links.computed,
            qualitative: links.qualitative,
        }
    }

    /// A fact by key; an unknown key is a defect of the caller and panics with the key.
    pub fn fact(&self, key: &str) -> &Fact {
        self.facts.get(key).unwrap_or_else(|| panic!("facts.toml has no fact {key}"))
    }

    /// An equation by key; an unknown key is a defect of the caller and panics with the key.
    pub fn equation(&self, key: &str) -> &Equation {
        self.equations.get(key).unwrap_or_else(|| panic!("facts.toml has no equation {key}"))
    }

    /// The number of a fact with exactly one, in the fact's own unit, as an input; panics for words and lists.
    pub fn number(&'static self, key: &str) -> f64 {
        match self.fact(key).input() {
            Value::Number(number) => *number,
            other => panic!("fact {key} is not one number: {other}"),
        }
    }

    /// A printed value for a table beside the model's; words and lists stay text.
    pub fn cell(&self, key: &str) -> Cell {
        match self.fact(key).printed() {
            Value::Number(number) => Cell::Number(*number),
            other => Cell::Text(other.to_string()),
        }
    }

    /// The number of a fact in another unit of its kind; panics where the unit does not fit.
    pub fn number_in(&'static self, key: &str, unit: &str) -> f64 {
        let fact = self.fact(key);
        unit::convert(self.number(key), &fact.unit, unit).unwrap_or_else(|| panic!("fact {key} [{}] is not in {unit}", fact.unit))
    }

    /// A claim by id.
    pub fn claim(&self, id: &str) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.id == id)
    }

    /// The facts a claim itself states: a model calibrated on one of them proves nothing about the claim.
    pub fn stated_by(&self, claim: &str) -> &[String] {
        self.states.get(claim).map(Vec::as_slice).unwrap_or_default()
    }

    /// What the paper itself computed a printed fact from; empty where it measured it.
    pub fn computed_from(&self, key: &str) -> &[String] {
        self.computed.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a claim states an order or a cause and no number.
    pub fn is_qualitative(&self, claim: &str) -> bool {
        self.qualitative.iter().any(|id| id == claim)
    }

    /// The keys, and every fact they were derived from, directly or through others.
    pub fn with_origins<'a>(&'a self, keys: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&str> = keys.into_iter().collect();
        while let Some(key) = open.pop() {
            if found.insert(key) {
                open.extend(self.derived.get(key).into_iter().flatten().map(String::as_str));
            }
        }
        found
    }
}

/// How a produced value stands to a fact.
#[derive(Clone, Debug, PartialEq)]
pub enum Agreement {
    /// Within the tolerance.
    Agrees,
    /// Outside the tolerance, and why.
    Differs(String),
    /// The fact is suspect or not printed: shown, never asserted.
    Shown,
}

/// Compares produced values with a fact by its relation and the tolerance.
///
/// A bound holds where every value is on its side; a range holds where one value lies inside, or where two values match
/// its ends; a set is compared element by element.
pub fn check(fact: &Fact, produced: &[f64], tolerance: Tolerance) -> Agreement {
    if !fact.is_asserted() {
        return Agreement::Shown;
    }
    let printed = fact.value.numbers();
    let agrees = match fact.rel {
        Relation::AtLeast => produced.iter().all(|value| *value >= printed[0] || tolerance.accepts(printed[0], *value)),
        Relation::AtMost => produced.iter().all(|value| *value <= printed[0] || tolerance.accepts(printed[0], *value)),
        Relation::Range if produced.len() == 1 => printed[0] <= produced[0] && produced[0] <= printed[1],
        _ => printed.len() == produced.len() && printed.iter().zip(produced).all(|(want, got)| tolerance.accepts(*want, *got)),
    };
    if agrees {
        Agreement::Agrees
    } else {
        Agreement::Differs(format!("{}: the paper has {} {}, the model {produced:?}", fact.key, fact.value, fact.unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        let facts = facts();
        assert_eq!((facts.facts.len(), facts.equations.len()), (367, 27));
        assert_eq!((facts.claims.len(), facts.features.len()), (86, 131));
    }

    #[test]
    fn links_name_what_exists() {
        let facts = facts();
        for (id, keys) in &facts.states {
            assert!(facts.claim(id).is_some(), "claims.toml names the unknown claim {id}");
            for key in keys {
                facts.fact(key);
            }
        }
        for (key, origins) in facts.derived.iter().chain(&facts.computed) {
            facts.fact(key);
            for origin in origins {
                facts.fact(origin);
            }
        }
    }

    #[test]
    fn every_claim_states_facts_or_is_qualitative() {
        let facts = facts();
        for claim in &facts.claims {
            let states = !facts.stated_by(&claim.id).is_empty();
            assert!(states != facts.is_qualitative(&claim.id), "{}: one of [states] and qualitative must name it", claim.id);
        }
        assert!(facts.qualitative.iter().all(|id| facts.claim(id).is_some()));
    }

    #[test]
    fn numbers_convert_to_the_asked_unit() {
        assert_eq!(facts().number_in("d2.testfile_text", "B"), 200.0 * 1024.0 * 1024.0);
        assert_eq!(facts().fact("d2.t4.read.1k").citation(), "[D2 Table 4]");
        assert_eq!(facts().fact("d2.page").citation(), "[D2 §6.1]");
    }

    #[test]
    fn origins_reach_through_derived_facts() {
        let origins = facts().with_origins(["d2.calib.read_512B"]);
        assert!(origins.contains("d2.t6.t_all.p1") && origins.contains("d2.t8.t_all.p1"), "{origins:?}");
    }

    #[test]
    fn bounds_and_suspects_are_compared_by_their_kind() {
        let facts = facts();
        let bound = facts.fact("d2.atdram_vs_smb");
        assert_eq!(check(bound, &[12.5], Tolerance::Exact), Agreement::Agrees);
        assert!(matches!(check(bound, &[11.0], Tolerance::Exact), Agreement::Differs(_)));
        assert_eq!(check(facts.fact("d2.t5.mmfread"), &[1.0], Tolerance::Exact), Agreement::Shown);
        assert_eq!(check(facts.fact("d2.mm.speedup2"), &[1.996], Tolerance::Absolute(0.01)), Agreement::Agrees);
    }
}
