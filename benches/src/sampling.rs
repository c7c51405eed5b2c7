//! Contenders that take turns.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// One sample under way; it answers with the time that it measured itself.
pub type Sample = Pin<Box<dyn Future<Output = Result<Duration>> + Send>>;

/// One of those that are compared.
pub struct Contender {
    name: String,
    sample: Box<dyn FnMut() -> Sample + Send>,
}

impl Contender {
    /// A contender whose sample is a future that measures what belongs to the question.
    pub fn new<F>(name: &str, mut sample: impl FnMut() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Duration>> + Send + 'static,
    {
        Self {
            name: name.to_owned(),
            sample: Box::new(move || Box::pin(sample())),
        }
    }

    /// A contender whose sample blocks: it runs on the blocking pool, and measures itself there.
    pub fn blocking(
        name: &str,
        sample: impl Fn() -> Result<Duration> + Clone + Send + 'static,
    ) -> Self {
        Self::new(name, move || {
            let sample = sample.clone();
            async move {
                tokio::task::spawn_blocking(sample)
                    .await
                    .context("a blocking sample was not finished")?
            }
        })
    }
}

/// The samples of one contender, in order of their length.
#[derive(Clone, Debug)]
pub struct Samples {
    /// The contender's name.
    pub name: String,
    sorted: Vec<Duration>,
}

impl Samples {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The sample below which this share of all lies, from 0 to 1; zero of none.
    pub fn quantile(&self, share: f64) -> Duration {
        let Some(last) = self.sorted.len().checked_sub(1) else {
            return Duration::ZERO;
        };
        #[expect(
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index of a short list, from a share that is clamped"
        )]
        let index = (share.clamp(0.0, 1.0) * last as f64).round() as usize;
        self.sorted.get(index).copied().unwrap_or_default()
    }

    /// The middle sample.
    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }
}

/// Takes `count` samples of each contender in turns, after one of each that warms up. Every other round goes backwards, so
/// that nobody always comes after the same neighbour.
///
/// # Errors
/// The first sample that failed, with its contender.
pub async fn in_turns(count: usize, mut contenders: Vec<Contender>) -> Result<Vec<Samples>> {
    let mut samples: Vec<Samples> = contenders
        .iter()
        .map(|contender| Samples {
            name: contender.name.clone(),
            sorted: Vec::with_capacity(count),
        })
        .collect();
    for round in 0..=count {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let contender = &mut contenders[index];
            // A task of a worker, as in the daemon: on the thread that blocks on the runtime every wake-up would cost more.
            let taken = tokio::spawn((contender.sample)()).await;
            let taken = taken
                .context("a sample was not finished")
                .and_then(|taken| taken)
                .with_context(|| contender.name.clone())?;
            if round > 0 {
                samples[index].sorted.push(taken);
            }
        }
    }
    for samples in &mut samples {
        samples.sorted.sort_unstable();
    }
    Ok(samples)
}

/// The time that a blocking piece of work takes.
///
/// # Errors
/// Those of the work.
pub fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn samples(milliseconds: &[u64]) -> Samples {
        Samples {
            name: String::new(),
            sorted: milliseconds
                .iter()
                .map(|time| Duration::from_millis(*time))
                .collect(),
        }
    }

    #[test]
    fn quantiles_are_samples_by_their_rank() {
        let samples = samples(&[1, 2, 3, 4, 100]);

        assert_eq!(samples.median(), Duration::from_millis(3));
        assert_eq!(samples.quantile(0.0), Duration::from_millis(1));
        assert_eq!(samples.quantile(0.99), Duration::from_millis(100));
        assert_eq!(samples.quantile(7.0), Duration::from_millis(100));
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(samples(&[]).median(), Duration::ZERO);
    }

    #[tokio::test]
    async fn contenders_take_turns_and_the_first_round_is_not_counted() {
        // given two contenders that write down when they run and whose first sample is the longest
        let order = Arc::new(Mutex::new(String::new()));
        let contender = |name: &'static str| {
            let order = Arc::clone(&order);
            Contender::new(name, move || {
                let mut order = order.lock().unwrap();
                let is_first = !order.contains(name);
                order.push_str(name);
                async move { Ok(Duration::from_secs(if is_first { 9 } else { 1 })) }
            })
        };

        // when three samples of each are taken
        let samples = in_turns(3, vec![contender("a"), contender("b")])
            .await
            .unwrap();

        // then every other round goes backwards, and no sample is a first one
        assert_eq!(*order.lock().unwrap(), "abbaabba");
        assert_eq!(
            samples
                .iter()
                .map(|samples| (samples.count(), samples.quantile(1.0)))
                .collect::<Vec<_>>(),
            [(3, Duration::from_secs(1)); 2]
        );
    }

    #[tokio::test]
    async fn a_sample_that_fails_names_its_contender() {
        let failing = Contender::blocking("the bad one", || anyhow::bail!("no"));

        let error = in_turns(1, vec![failing]).await.unwrap_err();

        assert_eq!(format!("{error:#}"), "the bad one: no");
    }
}
