"""A cluster of real processes under attack. Clients note what they ask and are told, while members
are killed, stopped, partitioned, given wrong clocks and full disks. Then the history is judged.

`network` gives each process a namespace of its own, `besieged` is the cluster, `load` its clients,
`faults` what is done to it. `judge` says whether the history is one that was promised."""
