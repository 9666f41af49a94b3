# %% [markdown]
# # Time and energy of a federation
#
# Who is heard, when, and for how many joules: what the uplink does to a model that workers train together.

# %%
import feduplink as fu

# %% [markdown]
# All senders of a round start together, and who has finished leaves the air: the others are disturbed less from then on.

# %%
scenario = fu.Scenario()
csi = fu.make_channels(scenario, 200, seed=0).test
power = fu.FullPower(scenario).allocate(csi)
bits = scenario.model_bits(39_760)  # of a model with so many weights
upload = fu.link.simultaneous_upload(csi, power, bits, scenario.bandwidth_hz)
print(f"median round {upload.duration_s.median():.1f} s")
print(f"median worker {upload.airtime_s.median():.1f} s on the air")

# %% [markdown]
# Handwritten digits over that uplink, for ways to share it and for policies. `ideal` loses nothing and costs nothing.

# %%
policies = ["ideal", "tdma", "ofdma", "max", "openloop"]
result = fu.federate(scenario, "digits", policies, rounds=12, target=0.3, seed=0)
result

# %%
result.plot("error", against="joules").figure
