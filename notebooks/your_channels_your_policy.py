# %% [markdown]
# # Your channels, your policy
#
# Bring a recording and a rule of your own, and see where they stand.

# %%
import h5py
import torch

import feduplink as fu
from feduplink.channels import mrc_csi

# %% [markdown]
# Here complex gains of six workers at four antennas stand in for a measurement; in units of the noise's deviation, so
# that the noise has power one. A receive filter makes H of them, which goes into one dataset of an HDF5 file.

# %%
generator = torch.Generator().manual_seed(0)
near = 10 ** (torch.tensor([52.0, 50, 48, 46, 44, 42]) / 20)  # amplitudes: 52 to 42 dB per W
gains = near[:, None] * torch.randn(900, 6, 4, dtype=torch.cfloat, generator=generator)
with h5py.File("measured.h5", "w") as file:
    file["input/channel_to_noise_matched"] = mrc_csi(gains).numpy()  # (N, L, L), linear, not in dB

# %% [markdown]
# Every third channel is to tune on, every third to report on. The scenario says what is asked for; weights are yours.

# %%
scenario = fu.Scenario(workers=6, weights="uniform", rate_min=0.2, ee_min=20)
channels = fu.make_channels(scenario, "measured.h5")
channels


# %% [markdown]
# A policy is a function from H (N, L, L) to powers (N, L) in W. This one lets everyone correct its power towards
# a common SINR.


# %%
class ClosedLoop(fu.Policy):
    """The loop of Foschini and Miljanic."""

    name = "closedloop"

    def powers(self, csi):
        pmax = self.scenario.max_power
        power = csi.new_full(csi.shape[:-1], pmax)
        for _ in range(20):
            power = (0.5 * power / fu.link.sinr(csi, power)).clamp_max(pmax)
        return power


# %%
result = fu.evaluate(scenario, ["openloop", ClosedLoop(scenario)], channels=channels, optimum=True)
result

# %%
result.plot().figure

# %% [markdown]
# In a file of its own the class works in every command: `feduplink evaluate --channels measured.h5 --policies
# openloop,mypolicies:ClosedLoop --optimum`.
