// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault breaks what Capstan runs on while works change all the while,
// and sees that each time the member ends with exactly what the works on the
// hub declare: nothing lost, duplicated or left over.
//
// A hub and a member without nodes come from the lab; the programs of the hub
// and an agent run as the built executable. The agent reaches both API servers
// through proxies that can misbehave. It needs root, and what `make test-fault`
// builds before. FAULT_DIR names the directory of the lab and of the logs.
package fault
