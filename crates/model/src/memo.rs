//! Results that are kept together with what they read.
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use crate::parameters::Parameters;
use crate::reads::{Reads, during, replay};

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

struct Kept {
    name: String,
    parameters: Parameters,
    result: Rc<dyn Any>,
    reads: Reads,
}

impl Kept {
    /// Whether the computation would read the same again: what it did not read may differ.
    fn is_of(&self, name: &str, parameters: &Parameters) -> bool {
        self.name == name && self.parameters.is_same(parameters, &self.reads.parameters)
    }
}

/// A run of the slowest model takes seconds, and a paper's claims share a few dozen runs.
const KEPT_COUNT_MAX: usize = 1024;

/// The result of `compute` for these parameters, computed once. `name` tells computations apart.
///
/// A result counts for other parameters too, where those that it read are the same. So `compute` must read all its inputs from
/// the parameters that it is given.
///
/// **Cost**: a comparison with each result kept, at most 1,024 a thread; the oldest leaves first.
pub fn memo<T: 'static>(name: &str, parameters: &Parameters, compute: impl FnOnce(&Parameters) -> T) -> Rc<T> {
    let known = KEPT.with_borrow(|kept| {
        let found = kept.iter().find(|kept| kept.is_of(name, parameters));
        found.and_then(|kept| Some((kept.result.clone().downcast::<T>().ok()?, kept.reads.clone())))
    });
    if let Some((result, reads)) = known {
        replay(&reads);
        return result;
    }
    let (result, reads) = during(|| compute(parameters));
    let result = Rc::new(result);
    let entry = Kept { name: name.to_string(), parameters: parameters.clone(), result: result.clone(), reads };
    KEPT.with_borrow_mut(|kept| {
        if kept.len() == KEPT_COUNT_MAX {
            kept.remove(0);
        }
        kept.push(entry);
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::facts;
    use std::collections::BTreeSet;

    fn table() -> Parameters {
        Parameters::of_rows(
            r#"
            { key = "file.size", fact = "d2.testfile_text", range = [1, 4096], meaning = "size" },
            { key = "opc", value = 202, unit = "ns", range = [0, 1e5], why = "[EU Table 2]", from = ["eu.t2.throughput.read"], meaning = "processing" },
        "#,
        )
    }

    #[test]
    fn a_parameter_brings_the_facts_it_is_or_was_chosen_from() {
        let parameters = table();
        let (_, reads) = during(|| parameters.get("opc"));
        assert_eq!(reads.parameters, BTreeSet::from(["opc"]));
        assert_eq!(reads.facts, BTreeSet::from(["eu.t2.throughput.read"]));
        let (_, reads) = during(|| parameters.get("file.size") + facts().number("d2.t5.read"));
        assert_eq!(reads.facts, BTreeSet::from(["d2.testfile_text", "d2.t5.read"]));
        let (_, reads) = during(|| parameters.find("opc").map(|parameter| parameter.unit));
        assert_eq!(reads, Reads::default(), "a listing is no read");
    }

    #[test]
    fn an_outer_record_holds_the_inner_one_and_what_is_kept() {
        let parameters = table();
        let once = || memo("once", &parameters, |parameters| parameters.get("opc"));
        once();
        let (_, reads) = during(|| during(once));
        assert!(reads.parameters.contains("opc"), "a kept result counts as read again");
    }

    #[test]
    fn a_kept_result_counts_while_what_it_read_is_the_same() {
        let runs = std::cell::Cell::new(0);
        let of = |parameters: &Parameters| {
            *memo("counted", parameters, |parameters| {
                runs.set(runs.get() + 1);
                parameters.get("opc")
            })
        };
        assert_eq!((of(&table()), of(&table().with("file.size", 1.0)), runs.get()), (202.0, 202.0, 1));
        assert_eq!((of(&table().with("opc", 3.0)), runs.get()), (3.0, 2));
        assert_eq!((of(&table().fitted("opc", 202.0)), runs.get()), (202.0, 3), "a fitted value rests on other facts");
    }

    #[test]
    fn a_value_that_is_fitted_no_longer_rests_on_its_default() {
        let fitted = table().fitted("opc", 1.0);
        let (_, reads) = during(|| fitted.get("opc"));
        assert!(reads.facts.is_empty(), "{reads:?}");
    }
}
