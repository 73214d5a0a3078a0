//! Conditions of a claim as data: a value, a limit, and what would have refuted it.
use serde::Serialize;

use crate::facts::{Value, facts};
use crate::text;

/// What a paper's words and numbers are read as: one table a paper, printed on the page.
#[derive(Debug)]
pub struct Rules {
    /// A number agrees within this share of the printed one.
    pub share: f64,
    /// Or within so many units of its last printed digit, where that is more.
    pub last_digit: f64,
    /// Why these two.
    pub why: &'static str,
    /// Words of the claims, with the number each is read as.
    pub words: &'static [(&'static str, f64, &'static str)],
}

impl Rules {
    /// The number a word is read as; a word that is not in the table is a defect of the model and panics.
    pub fn word(&self, word: &str) -> f64 {
        let found = self.words.iter().find(|known| known.0 == word);
        found.unwrap_or_else(|| panic!("no rule says what {word:?} is read as")).1
    }

    /// How far a value may be from a printed one.
    pub fn allowed(&self, printed: f64) -> f64 {
        let shortest = format!("{printed}");
        let decimals = shortest.split_once('.').map_or(0, |(_, digits)| digits.len());
        (self.share * printed.abs()).max(self.last_digit * 0.1_f64.powi(decimals as i32))
    }

    /// The rule for numbers, in words.
    pub fn closeness(&self) -> String {
        let share = format!("within {} % of the printed number", text::number(self.share * 100.0));
        if self.last_digit == 0.0 {
            share
        } else {
            format!("{share}, or {} of the unit of its last digit where that is more", text::number(self.last_digit))
        }
    }
}

/// What a value is held to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Greater than this.
    Above(f64),
    /// This or greater.
    AtLeast(f64),
    /// Less than this.
    Below(f64),
    /// This or less.
    AtMost(f64),
    /// As far from the printed number as the paper's rule allows.
    Near {
        /// The paper's number.
        printed: f64,
        /// The distance allowed.
        tolerance: f64,
    },
    /// A property that is there or not.
    True,
}

/// One condition.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What is compared.
    pub what: String,
    /// The model's number; 1 or 0 for a property.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What it is held to.
    pub limit: Limit,
}

impl Check {
    /// A condition.
    pub fn new(what: impl Into<String>, value: f64, unit: &'static str, limit: Limit) -> Check {
        Check { what: what.into(), value, unit, limit }
    }

    /// A value near the printed fact, by the paper's rule and the fact's own relation: a bound stays a bound.
    pub fn fact(rules: &Rules, key: &'static str, what: impl Into<String>, value: f64) -> Check {
        use crate::facts::Relation;
        let fact = facts().fact(key);
        let Value::Number(printed) = *fact.printed() else { panic!("fact {key} is not one number") };
        let limit = match fact.rel {
            Relation::AtLeast => Limit::AtLeast(printed),
            Relation::AtMost => Limit::AtMost(printed),
            _ => Limit::Near { printed, tolerance: rules.allowed(printed) },
        };
        Check { what: what.into(), value, unit: &fact.unit, limit }
    }

    /// A property.
    pub fn is(what: impl Into<String>, holds: bool) -> Check {
        Check { what: what.into(), value: f64::from(u8::from(holds)), unit: "", limit: Limit::True }
    }

    /// Whether the condition holds.
    pub fn holds(&self) -> bool {
        let value = self.value;
        match self.limit {
            Limit::Above(limit) => value > limit,
            Limit::AtLeast(limit) => value >= limit,
            Limit::Below(limit) => value < limit,
            Limit::AtMost(limit) => value <= limit,
            Limit::Near { printed, tolerance } => (value - printed).abs() <= tolerance * (1.0 + 1e-9),
            Limit::True => value == 1.0,
        }
    }

    /// How far the value is on the right side, as a share of the limit; negative where it is on the wrong one.
    pub fn margin(&self) -> f64 {
        let share = |distance: f64, limit: f64| distance / limit.abs().max(1e-9);
        match self.limit {
            Limit::Above(limit) | Limit::AtLeast(limit) => share(self.value - limit, limit),
            Limit::Below(limit) | Limit::AtMost(limit) => share(limit - self.value, limit),
            Limit::Near { printed, tolerance } => share(tolerance - (self.value - printed).abs(), printed),
            Limit::True => f64::INFINITY,
        }
    }

    fn with_unit(&self, value: f64) -> String {
        format!("{} {}", text::number(value), self.unit).trim_end().to_string()
    }

    /// The value with its unit.
    pub fn shown(&self) -> String {
        match self.limit {
            Limit::True => if self.value == 1.0 { "yes" } else { "no" }.to_string(),
            _ => self.with_unit(self.value),
        }
    }

    /// What it is held to, in words.
    pub fn demand(&self) -> String {
        match self.limit {
            Limit::Above(limit) => format!("above {}", self.with_unit(limit)),
            Limit::AtLeast(limit) => format!("at least {}", self.with_unit(limit)),
            Limit::Below(limit) => format!("below {}", self.with_unit(limit)),
            Limit::AtMost(limit) => format!("at most {}", self.with_unit(limit)),
            Limit::Near { printed, tolerance } => {
                format!("{} ± {}", text::number(printed), self.with_unit(tolerance))
            }
            Limit::True => "yes".to_string(),
        }
    }

    /// What would have refuted it, in words.
    pub fn refutation(&self) -> String {
        match self.limit {
            Limit::Above(limit) => format!("{}: {} or less", self.what, self.with_unit(limit)),
            Limit::AtLeast(limit) => format!("{}: less than {}", self.what, self.with_unit(limit)),
            Limit::Below(limit) => format!("{}: {} or more", self.what, self.with_unit(limit)),
            Limit::AtMost(limit) => format!("{}: more than {}", self.what, self.with_unit(limit)),
            Limit::Near { printed, tolerance } => format!(
                "{}: below {} or above {}",
                self.what,
                text::number(printed - tolerance),
                self.with_unit(printed + tolerance)
            ),
            Limit::True => format!("not: {}", self.what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { share: 0.05, last_digit: 0.5, why: "", words: &[("far", 1.5, "half more")] };

    #[test]
    fn closeness_is_the_share_or_the_last_digit() {
        assert_eq!(RULES.allowed(3.0), 0.5);
        assert!((RULES.allowed(48.0) - 2.4).abs() < 1e-12 && (RULES.allowed(1.99) - 0.0995).abs() < 1e-12);
        assert_eq!(RULES.word("far"), 1.5);
    }

    #[test]
    fn a_check_says_what_refutes_it() {
        let check = Check::new("BOTF over LHC", 1.4, "x", Limit::Above(1.33));
        assert!(check.holds() && check.margin() > 0.0);
        assert_eq!(check.refutation(), "BOTF over LHC: 1.33 x or less");
        let near = Check::fact(&RULES, "d2.mm.speedup2", "gain", 2.2);
        assert!(!near.holds() && near.demand().starts_with("1.99 ± "), "{}", near.demand());
        assert!(!Check::new("", f64::NAN, "", Limit::AtMost(1.0)).holds(), "no number is no agreement");
    }

    #[test]
    fn a_bound_stays_a_bound() {
        assert!(Check::fact(&RULES, "d2.atdram_vs_smb", "", 12.0).holds());
        assert!(!Check::fact(&RULES, "d2.atdram_vs_smb", "", 11.9).holds());
    }
}
