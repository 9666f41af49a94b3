# %% [markdown]
# # Time and energy of a federation
#
# Who is heard, when, and for how many joules: what the uplink does to a model that workers train together.

# %%
from feduplink import FullPower, OpenLoop, Scenario, federate, link, load_task
from feduplink.channels import make_channels
from feduplink.federated import OFDMA, TDMA, FederationSettings, Ideal
from feduplink.reporting.federated import plot_costs

# %% [markdown]
# All senders of a round start together, and who has finished leaves the air: the others are disturbed less from then on.

# %%
scenario = Scenario()
csi = make_channels(scenario, 200, seed=0).test
power = FullPower(scenario).allocate(csi)
bits = scenario.model_bits(39_760)  # of a model with so many weights
upload = link.simultaneous_upload(csi, power, bits, scenario.bandwidth_hz)
print(f"median round {upload.duration_s.median():.1f} s")
print(f"median worker {upload.airtime_s.median():.1f} s on the air")

# %% [markdown]
# Handwritten digits over that uplink, for ways to share it and for policies. `ideal` loses nothing and costs nothing.

# %%
senders = {
    "ideal": Ideal(),
    "tdma": TDMA(),
    "ofdma": OFDMA(),
    "max": FullPower(scenario),
    "openloop": OpenLoop.tuned(scenario, make_channels(scenario, 200, seed=0).training),
}
task = load_task("digits", workers=scenario.workers)
history = federate(task, senders, scenario, FederationSettings(rounds=12), seed=0)
history.table(0.3)

# %%
plot_costs({"digits": history})
