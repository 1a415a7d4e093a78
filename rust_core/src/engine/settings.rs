//! What an operator may set. The defaults were measured on a CPU-like and a GPU-like catalogue.

/// Prices of service, in output tokens. Nothing here is tuned to a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriceSettings {
    /// Value of an output token.
    pub output_value: f64,
    /// Value of prompt work, as a multiple of the decode work that the same device time buys.
    pub prompt_weight: f64,
    /// Share of the decode rate spread evenly as proportional-fair prices.
    pub fairness: f64,
    /// The same for deliveries, whatever their size; 0 is off. The age price already pays them.
    pub delivery_fairness: f64,
    /// Price of the time since the last delivery, as a share of the decode rate; 0 is off.
    pub age: f64,
    /// Price of that time beyond the allowed gap; 0 is off.
    pub stall: f64,
    /// Share of a stream's gap target that replaces the decode time where it is longer.
    pub gap_reference_share: f64,
    /// Share of a stream's gap target at which it counts as stalled.
    pub gap_margin: f64,
    /// Value of ending a request, in tokens; 0 is off.
    pub retirement_value: f64,
    /// Pressure gained per own service time waited.
    pub wait_pressure: f64,
    /// Decode steps added to the prefill time in "own service time".
    pub wait_steps: f64,
    /// Strength of the deadline barrier.
    pub deadline_pressure: f64,
    /// Pressure gained per allowance of lateness.
    pub late_pressure: f64,
    /// Most that pressure multiplies a price by.
    pub pressure_cap: f64,
    /// Own service times after which a prompt comes first, and without any service may be passed
    /// over no more; 0 is never.
    pub patience: f64,
    /// Memory of the service shares, in decode steps.
    pub memory_steps: f64,
    /// Least share that prices divide by.
    pub share_floor: f64,
    /// Weight of a new delivery gap in its mean.
    pub gap_weight: f64,
    /// Whether a prompt alone on the device follows its exact completion plan.
    pub plan_lone_prompt: bool,
}

impl Default for PriceSettings {
    fn default() -> Self {
        Self {
            output_value: 1.0,
            prompt_weight: 2.0,
            fairness: 0.1,
            delivery_fairness: 0.0,
            age: 0.9,
            stall: 4.0,
            gap_reference_share: 0.25,
            gap_margin: 0.9,
            retirement_value: 0.0,
            wait_pressure: 0.5,
            wait_steps: 32.0,
            deadline_pressure: 2.0,
            late_pressure: 0.1,
            pressure_cap: 8.0,
            patience: 3.0,
            memory_steps: 16.0,
            share_floor: 0.02,
            gap_weight: 0.125,
            plan_lone_prompt: true,
        }
    }
}

/// How graph costs are learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostSettings {
    /// Age at which a measurement is stale. It stays usable.
    pub lifetime_ns: i64,
    /// Share of device time for measuring stale graphs again, in [0, 1).
    pub probe_share: f64,
    /// Credit that a probe needs, and the most that is kept.
    pub credit_cap_ns: i64,
    /// Indeterminate executions after which a graph no longer comes first.
    pub bootstrap_attempts: u32,
}

impl Default for CostSettings {
    fn default() -> Self {
        Self {
            lifetime_ns: 30_000_000_000,
            probe_share: 0.02,
            credit_cap_ns: 5_000_000,
            bootstrap_attempts: 3,
        }
    }
}

/// All settings of a step scheduler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Prices of service.
    pub prices: PriceSettings,
    /// Learning of costs.
    pub costs: CostSettings,
    /// Most lanes at a time.
    pub max_lanes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { prices: PriceSettings::default(), costs: CostSettings::default(), max_lanes: 1_024 }
    }
}

impl Settings {
    /// Names the first setting out of range.
    ///
    /// # Errors
    /// A setting that is not finite or outside its range.
    pub fn check(&self) -> Result<(), crate::error::CoreError> {
        let prices = &self.prices;
        let at_least_zero = [
            ("output_value", prices.output_value),
            ("prompt_weight", prices.prompt_weight),
            ("fairness", prices.fairness),
            ("delivery_fairness", prices.delivery_fairness),
            ("age", prices.age),
            ("stall", prices.stall),
            ("gap_reference_share", prices.gap_reference_share),
            ("gap_margin", prices.gap_margin),
            ("retirement_value", prices.retirement_value),
            ("wait_pressure", prices.wait_pressure),
            ("wait_steps", prices.wait_steps),
            ("deadline_pressure", prices.deadline_pressure),
            ("late_pressure", prices.late_pressure),
            ("patience", prices.patience),
        ];
        let above_zero = [
            ("memory_steps", prices.memory_steps),
            ("share_floor", prices.share_floor),
            ("gap_weight", prices.gap_weight),
        ];
        require(&at_least_zero, |value| value >= 0.0, "finite and at least 0")?;
        require(&above_zero, |value| value > 0.0, "finite and above 0")?;
        require(&[("pressure_cap", prices.pressure_cap)], |value| value >= 1.0, "at least 1")?;
        require(
            &[("probe_share", self.costs.probe_share)],
            |value| (0.0..1.0).contains(&value),
            "in [0, 1)",
        )?;
        let counts = [
            ("lifetime_ns", self.costs.lifetime_ns as f64),
            ("credit_cap_ns", self.costs.credit_cap_ns as f64),
            ("max_lanes", self.max_lanes as f64),
        ];
        require(&counts, |value| value > 0.0, "above 0")
    }
}

fn require(
    values: &[(&'static str, f64)],
    holds: impl Fn(f64) -> bool,
    expected: &'static str,
) -> Result<(), crate::error::CoreError> {
    match values.iter().find(|(_, value)| !value.is_finite() || !holds(*value)) {
        Some((name, value)) => Err(crate::error::CoreError::argument(name, value, expected)),
        None => Ok(()),
    }
}
