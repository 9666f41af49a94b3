# %% [markdown]
# # The paper in ten minutes
#
# Li, Perazzone, Swami and Segarra, *Learning to Transmit with Provable Guarantees in Wireless Federated
# Learning*: workers send their models over one band and disturb each other. Which powers let the most
# useful models arrive, while everyone keeps a minimum rate and energy efficiency on average?

# %%
import feduplink as fu

# %% [markdown]
# A cell of the paper: eight workers, ten antennas, at most 10 mW. A channel H is (L, L): the diagonal is how well
# a worker is heard, the rest how much the others disturb it.

# %%
scenario = fu.Scenario(workers=8, antennas=10, pmax_dbw=-20, rate_min=0.7, ee_min=55)
channels = fu.make_channels(scenario, 300, seed=0)
(10 * channels.test[0].log10()).round(decimals=1)  # in dB

# %% [markdown]
# The paper learns a graph network by primal–dual training: the weights go up the Lagrangian, the multipliers, one
# per worker and constraint, down. It trains for 1000 epochs; 30 show how it goes.

# %%
run = fu.train(scenario, "pdg", channels=channels, epochs=30, seed=0)
run.plot().figure

# %% [markdown]
# Beside it: everyone at full power, the open loop of 3GPP, tuned, and `pdx`, a network for all scenarios that needs no
# training for this one. The optimum is searched on the very channels, and a bound on every policy is proved.

# %%
result = fu.evaluate(
    scenario, ["max", "openloop", run.policy, "pdx"], channels=channels, optimum=True
)
result

# %%
result.plot().figure

# %% [markdown]
# Learning works, and a simple rule that is well tuned is hard to beat. What of the paper holds at full scale, claim by
# claim: `docs/reproduction.md`.
