//! Comparisons of predictions with measurements that are kept beside the code, for the report's page.
use serde::{Deserialize, Serialize};

use super::WhatIfError;
use super::calibrate::Comparison;

/// The comparisons that were kept when this was built.
const KEPT: &str = include_str!("../../validated.toml");

/// Comparisons, one a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptComparisons {
    /// In the order in which they were first made.
    #[serde(default)]
    pub comparison: Vec<Comparison>,
}

impl KeptComparisons {
    /// Those that were kept when this was built.
    pub fn built_in() -> KeptComparisons {
        toml::from_str(KEPT).expect("a test reads it")
    }

    /// Reads a file's text.
    ///
    /// **Errors**: [`WhatIfError::Calibration`] for one that has another form.
    pub fn from_toml(text: &str) -> Result<KeptComparisons, WhatIfError> {
        toml::from_str(text).map_err(|error| WhatIfError::Calibration { problem: error.message().replace('\n', " ") })
    }

    /// Takes a comparison in, in the place of one over the same network.
    pub fn take(&mut self, comparison: Comparison) {
        match self.comparison.iter_mut().find(|known| known.network == comparison.network) {
            Some(known) => *known = comparison,
            None => self.comparison.push(comparison),
        }
    }

    /// The text that is kept.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("numbers and texts have a TOML form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Frame, Network};
    use crate::what_if::calibrate::{self, Measured, Provenance};
    use crate::what_if::costs::Predicted;

    fn network(name: &str) -> Network {
        let Some(rate) = name.strip_prefix("loopback of ").and_then(|rest| rest.strip_suffix(" Mb/s")) else {
            return Network::here();
        };
        let bytes_per_second = rate.parse::<u64>().unwrap() * 125_000;
        Network {
            name: name.to_string(),
            bytes_per_second,
            burst: 256_000,
            is_shared: true,
            frame: Some(Frame { payload: 65_483, around: 66 }),
            ..Network::here()
        }
    }

    /// The model as it is, on what was measured then: the fitted rows are of the first comparison, and each comparison keeps the others.
    #[test]
    fn what_was_measured_is_predicted_from_the_fitted_rows() {
        let kept = KeptComparisons::built_in();
        let rows = |comparison: &Comparison| -> Vec<Measured> {
            let row = |point: &Predicted| Measured { pattern: point.pattern.clone(), ns: point.measured, tail: point.tail };
            comparison.points.iter().map(row).collect()
        };
        let costs = calibrate::fit(Provenance { cores: 2, ..Provenance::default() }, &rows(&kept.comparison[0]), 0.6).unwrap();
        let mut errors = kept.comparison.iter().map(|comparison| {
            let made = calibrate::compare(&costs, &rows(comparison), &network(&comparison.network)).unwrap();
            assert!(made.held_out().count() >= 20, "{}: most rows are held out", made.network);
            made.errors().unwrap()
        });
        // Over a slow line it is the line's rate that is predicted; here it is the software.
        let (median, most) = errors.next().unwrap();
        assert!(median < 0.08 && most < 0.32, "{median} {most}");
        assert!(errors.all(|(median, most)| median < 0.05 && most < 0.33));
    }

    #[test]
    fn what_is_kept_is_read_and_one_is_replaced_by_the_next() {
        let mut kept = KeptComparisons::built_in();
        assert_eq!(KeptComparisons::from_toml(&kept.to_toml()).unwrap(), kept);
        let made = |measured: &str| Comparison { network: "lab".to_string(), measured: measured.to_string(), points: Vec::new() };
        let count = kept.comparison.len();
        kept.take(made("once"));
        kept.take(made("again"));
        assert_eq!((kept.comparison.len(), kept.comparison[count].measured.as_str()), (count + 1, "again"));
        assert!(KeptComparisons::from_toml("comparison = 3").is_err());
    }
}
