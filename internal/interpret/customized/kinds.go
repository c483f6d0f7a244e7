// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package customized

import (
	"cmp"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/lua"
)

// DynamicKinds are the kinds that are customized, as a layer of a Chain that changes when
// the customizations do. What is said of a kind is compiled when it is asked for, and
// stays so as long as the same is said. It is safe for concurrent use.
type DynamicKinds struct {
	machine *lua.Machine

	mu    sync.RWMutex
	kinds map[schema.GroupVersionKind]*kindState
	// changes counts how often something else was said of an operation of a kind.
	changes uint64
}

// kindState is what is said of one.
type kindState struct {
	said  []lua.Customization
	layer *lua.ScriptedKinds
	// changed are by operation the number of the change since which it is as it is.
	// One of which nothing is said any more stays.
	changed map[lua.Operation]uint64
}

// NewDynamicKinds returns kinds of which nothing is said yet. Their scripts run on the
// machine.
func NewDynamicKinds(machine *lua.Machine) *DynamicKinds {
	return &DynamicKinds{machine: machine, kinds: map[schema.GroupVersionKind]*kindState{}}
}

// Operations is part of interpret.Layer.
func (k *DynamicKinds) Operations(of schema.GroupVersionKind) interpret.Operations {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if known := k.kinds[of]; known != nil {
		return known.layer.Operations(of)
	}
	return interpret.Operations{}
}

// ChangeRevision returns a number that differs from the one before if something else is
// said of any of the operations of a kind; 0 if nothing ever was.
func (k *DynamicKinds) ChangeRevision(of schema.GroupVersionKind, operations ...lua.Operation) uint64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	latest := uint64(0)
	if known := k.kinds[of]; known != nil {
		for _, operation := range operations {
			latest = max(latest, known.changed[operation])
		}
	}
	return latest
}

// SetCustomizations makes the customizations, whose names differ, all that there are. It returns
// the kinds of which something else is said now.
func (k *DynamicKinds) SetCustomizations(all []lua.Customization) (changed []schema.GroupVersionKind) {
	said := map[schema.GroupVersionKind][]lua.Customization{}
	for _, c := range all {
		said[c.Kind] = append(said[c.Kind], c)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for of := range k.kinds {
		if _, still := said[of]; !still {
			said[of] = nil
		}
	}
	for of, by := range said {
		slices.SortFunc(by, func(a, b lua.Customization) int { return cmp.Compare(a.Name, b.Name) })
		known := k.kinds[of]
		if known == nil {
			known = &kindState{changed: map[lua.Operation]uint64{}}
			k.kinds[of] = known
		}
		if reflect.DeepEqual(known.said, by) {
			continue
		}
		for _, operation := range lua.AllOperations() {
			if !slices.Equal(scriptsOfOperation(known.said, operation), scriptsOfOperation(by, operation)) {
				k.changes++
				known.changed[operation] = k.changes
			}
		}
		known.said, known.layer = by, k.machine.NewLayer(by)
		changed = append(changed, of)
	}
	return changed
}

// scriptsOfOperation are the scripts for an operation, each after the name of its customization:
// that is in what its errors say.
func scriptsOfOperation(said []lua.Customization, of lua.Operation) (all []string) {
	for _, c := range said {
		if script, has := c.Scripts[of]; has {
			all = append(all, c.Name, script)
		}
	}
	return all
}
