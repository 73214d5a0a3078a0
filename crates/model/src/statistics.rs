//! Means of a run with their confidence.

/// Batches whose means are compared: enough for a normal mean, few enough that each is long.
const BATCHES: usize = 20;
/// SOURCE: Student's t, 19 degrees of freedom, 97.5 %.
const T_19: f64 = 2.093;

/// A mean, and half the width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Half the width; none for fewer values than two a batch.
    pub half_width: Option<f64>,
}

/// The mean of values in the order of time, by the means of batches: values of one run depend on those before them, and
/// means of long batches hardly do.
///
/// SOURCE: batch means, A. Law, "Simulation Modeling and Analysis", chapter 9.
pub fn mean(values: &[f64]) -> Option<Mean> {
    if values.is_empty() {
        return None;
    }
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let value = average(values);
    let len = values.len() / BATCHES;
    if len < 2 {
        return Some(Mean { value, half_width: None });
    }
    // The first of the run warm up what the others find: what does not fill a batch is left out there.
    let batches: Vec<f64> = values[values.len() - len * BATCHES..].chunks(len).map(average).collect();
    let middle = average(&batches);
    let spread = batches.iter().map(|batch| (batch - middle).powi(2)).sum::<f64>() / (BATCHES - 1) as f64;
    Some(Mean { value, half_width: Some(T_19 * (spread / BATCHES as f64).sqrt()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::Sequence;

    #[test]
    fn intervals_hold_the_mean_as_often_as_they_say() {
        let mut sequence = Sequence::new(3);
        let held = (0..400).filter(|_| {
            let values: Vec<f64> = (0..400).map(|_| sequence.below(1_000) as f64).collect();
            let mean = mean(&values).unwrap();
            (mean.value - 499.5).abs() <= mean.half_width.unwrap()
        });
        let held = held.count();
        assert!((365..=393).contains(&held), "seed 3: {held} of 400 are not about 95 %");
    }

    #[test]
    fn few_values_have_no_interval() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1.0, 3.0]), Some(Mean { value: 2.0, half_width: None }));
    }
}
