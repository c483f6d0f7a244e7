// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shipped interprets kinds of others that many clusters have, by scripts that
// are part of Capstan. Each kind is a ResourceInterpreterCustomization in folder
// kinds, as users write them: they can read it, and copy it to change it.
//
// A kind is read and compiled when there is an object of it. Of the others there is
// nothing but their names.
package shipped

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

//go:embed kinds
var files embed.FS

// Kinds is a layer of kinds of others, in all their versions. It is safe for
// concurrent use.
type Kinds struct {
	// shipped are all kinds, sorted.
	shipped []schema.GroupKind
	machine *lua.Machine

	mu sync.Mutex
	// known are those of which there was an object.
	known map[schema.GroupKind]interpret.Operations
}

// Chain is what Capstan knows of kinds by itself, for the end of every chain.
func Chain() interpret.Chain { return interpret.Chain{New(), native.New()} }

// New returns the layer.
func New() *Kinds {
	return &Kinds{
		shipped: All(), known: map[schema.GroupKind]interpret.Operations{},
		// No script of ours asks what time it is: the same object has the same answer.
		machine: lua.New(func() time.Time { return time.Time{} }),
	}
}

// Operations is part of interpret.Layer.
func (k *Kinds) Operations(kind schema.GroupVersionKind) interpret.Operations {
	of := kind.GroupKind()
	if _, is := slices.BinarySearchFunc(k.shipped, of, compare); !is {
		return interpret.Operations{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known, has := k.known[of]
	if !has {
		if customization, err := Read(of); err == nil { // a test reads them all
			says := customized.Of(customization)
			says.Shipped = true
			known = k.machine.Layer([]lua.Customization{says}).Operations(says.Kind)
		}
		k.known[of] = known
	}
	return known
}

func compare(a, b schema.GroupKind) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind))
}

// All returns the kinds, sorted by their groups and names.
func All() []schema.GroupKind {
	var all []schema.GroupKind
	names, err := fs.Glob(files, "kinds/*/*.yaml")
	if err != nil { // which is so for a bad pattern only
		return nil
	}
	for _, name := range names {
		all = append(all, schema.GroupKind{Group: path.Base(path.Dir(name)), Kind: strings.TrimSuffix(path.Base(name), ".yaml")})
	}
	slices.SortFunc(all, compare)
	return slices.Clip(all)
}

// File returns what is shipped for a kind as it is written.
func File(kind schema.GroupKind) ([]byte, error) {
	content, err := files.ReadFile("kinds/" + kind.Group + "/" + kind.Kind + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("nothing is shipped for %s: %w", kind, err)
	}
	return content, nil
}

// Read returns what is shipped for a kind.
func Read(kind schema.GroupKind) (*configv1alpha1.ResourceInterpreterCustomization, error) {
	content, err := File(kind)
	if err != nil {
		return nil, err
	}
	customization := &configv1alpha1.ResourceInterpreterCustomization{}
	if err := yaml.UnmarshalStrict(content, customization); err != nil {
		return nil, fmt.Errorf("reading what is shipped for %s: %w", kind, err)
	}
	return customization, nil
}
