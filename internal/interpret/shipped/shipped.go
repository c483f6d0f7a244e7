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

// ThirdPartyKinds is a layer of kinds of others, in all their versions. It is safe for
// concurrent use.
type ThirdPartyKinds struct {
	// shipped are all kinds, sorted.
	shipped []schema.GroupKind
	machine *lua.Machine

	mu sync.Mutex
	// known are those of which there was an object.
	known map[schema.GroupKind]interpret.Operations
}

// BuiltinChain is what Capstan knows of kinds by itself, for the end of every chain.
func BuiltinChain() interpret.Chain {
	return interpret.Chain{NewThirdPartyKinds(), native.NewKubernetesKinds()}
}

// NewThirdPartyKinds returns the layer.
func NewThirdPartyKinds() *ThirdPartyKinds {
	return &ThirdPartyKinds{
		shipped: ThirdPartyGroupKinds(), known: map[schema.GroupKind]interpret.Operations{},
		// No script of ours asks what time it is: the same object has the same answer.
		machine: lua.NewMachine(func() time.Time { return time.Time{} }),
	}
}

// Operations is part of interpret.Layer.
func (k *ThirdPartyKinds) Operations(kind schema.GroupVersionKind) interpret.Operations {
	of := kind.GroupKind()
	if _, is := slices.BinarySearchFunc(k.shipped, of, compareKinds); !is {
		return interpret.Operations{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known, has := k.known[of]
	if !has {
		if customization, err := ReadCustomization(of); err == nil { // a test reads them all
			says := customized.LuaCustomizationOf(customization)
			says.Shipped = true
			known = k.machine.NewLayer([]lua.Customization{says}).Operations(says.Kind)
		}
		k.known[of] = known
	}
	return known
}

func compareKinds(a, b schema.GroupKind) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind))
}

// ThirdPartyGroupKinds returns the kinds, sorted by their groups and names.
func ThirdPartyGroupKinds() []schema.GroupKind {
	var all []schema.GroupKind
	names, err := fs.Glob(files, "kinds/*/*.yaml")
	if err != nil { // which is so for a bad pattern only
		return nil
	}
	for _, name := range names {
		all = append(all, schema.GroupKind{Group: path.Base(path.Dir(name)), Kind: strings.TrimSuffix(path.Base(name), ".yaml")})
	}
	slices.SortFunc(all, compareKinds)
	return slices.Clip(all)
}

// ReadKindFile returns what is shipped for a kind as it is written.
func ReadKindFile(kind schema.GroupKind) ([]byte, error) {
	content, err := files.ReadFile("kinds/" + kind.Group + "/" + kind.Kind + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("nothing is shipped for %s: %w", kind, err)
	}
	return content, nil
}

// ReadCustomization returns what is shipped for a kind.
func ReadCustomization(kind schema.GroupKind) (*configv1alpha1.ResourceInterpreterCustomization, error) {
	content, err := ReadKindFile(kind)
	if err != nil {
		return nil, err
	}
	customization := &configv1alpha1.ResourceInterpreterCustomization{}
	if err := yaml.UnmarshalStrict(content, customization); err != nil {
		return nil, fmt.Errorf("reading what is shipped for %s: %w", kind, err)
	}
	return customization, nil
}
