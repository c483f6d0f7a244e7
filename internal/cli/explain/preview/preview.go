// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/explain/trial"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/forecast"
	"github.com/capstan-io/capstan/internal/propagation/selector"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// Preview is what would become of things. The form of its items is stable.
type Preview struct {
	policies []policyPreview
	objects  []objectPreview
	// rest is how many objects were looked at of which nothing would become.
	rest   int
	unread []string
}

// policyPreview is a policy of the files, also one that overrides.
type policyPreview struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Change is new, changed, unchanged or deleted.
	Change string `json:"change"`
	// Selects is how many objects a policy that propagates would select, and Claims
	// how many of these it would send to clusters.
	Selects *int `json:"selects,omitempty"`
	Claims  *int `json:"claims,omitempty"`
	// Problems are mistakes of the user's.
	Problems []string `json:"problems,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// objectPreview is what would become of an object.
type objectPreview struct {
	AsOf       metav1.Time `json:"asOf"`
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Namespace  string      `json:"namespace,omitempty"`
	Name       string      `json:"name"`
	// Change is new, changed or unchanged for what is in the files; or else it is
	// missing.
	Change string `json:"change,omitempty"`
	// ClaimedBy is the policy that sends the object to clusters.
	ClaimedBy claim            `json:"claimedBy"`
	Clusters  []clusterPreview `json:"clusters"`
	// Along is what is sent to the same clusters, as the object needs it.
	Along []alongObject `json:"along,omitempty"`
	// Rollout has clusters get the change group by group, such as
	// PropagationRollout shop/web.
	Rollout  string   `json:"rollout,omitempty"`
	Problems []string `json:"problems,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Unread   []string `json:"unread,omitempty"`
}

// claim names a policy, such as PropagationPolicy shop/web; "" is none.
type claim struct {
	Now  string `json:"now"`
	Then string `json:"then"`
}

// clusterPreview is what would become of an object in a cluster.
type clusterPreview struct {
	Name string `json:"name"`
	// Change is gained, lost, changed, stuck or unchanged.
	Change   string    `json:"change"`
	Replicas *replicas `json:"replicas,omitempty"`
	// Overrides are the policies that would change the object for the cluster.
	Overrides []string `json:"overrides,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	// Diff is how the manifest would be different, if that was asked for.
	Diff string `json:"diff,omitempty"`

	// other says that the manifest would be another one, but for its replicas.
	other bool
}

// replicas are those of a cluster, of what has any.
type replicas struct {
	Now  int32 `json:"now"`
	Then int32 `json:"then"`
}

// buildPreview makes of the facts what there is to say.
func (r Reader) buildPreview(ctx context.Context, f *previewFacts) (*Preview, error) {
	p := &Preview{}
	for _, s := range f.subjects {
		outcome := f.world.ForecastObject(s.Subject)
		beside, err := r.alongObjects(ctx, f, s, outcome)
		if err != nil {
			return nil, err
		}
		moves := slices.ContainsFunc(beside, func(a alongObject) bool { return a.Change != forecast.Same })
		switch unclaimed := outcome.Now == nil && outcome.Then == nil && len(outcome.Clusters) == 0; {
		case s.trial == nil && !outcome.HasChanges() && len(outcome.Problems) == 0 && !moves:
			p.rest++
			continue
		case unclaimed && (r.Beside || s.kind.Kind == "Namespace"):
			continue // namespaces follow what is sent into them
		}
		told := r.previewObject(s, outcome, f.unread)
		told.Along = beside
		f.addRolloutNote(&told, s.objectKey, outcome)
		if text := f.known.UnaskedNote(s.kind, interpreters.InterpretReplica, interpreters.ReviseReplica, interpreters.InterpretDependency); text != "" {
			told.Notes = append(told.Notes, text)
		}
		p.objects = append(p.objects, told)
	}
	p.unread, p.policies = f.unread, f.policyPreviews()
	return p, nil
}

// policyPreviews returns what there is to say of the policies of the files.
func (f *previewFacts) policyPreviews() []policyPreview {
	var all []policyPreview
	for _, c := range f.policies {
		one := policyOf(c.trial)
		if selects, claimed := f.selected[c.then], f.claimed[c.then]; !c.trial.Gone {
			one.Selects = &selects
			one.Claims = &claimed
		}
		one.Problems, one.Notes = append(one.Problems, mistakes(c.then)...), append(one.Notes, f.notes[c.then]...)
		all = append(all, one)
	}
	for _, c := range f.wide {
		all = append(all, policyOf(c.trial))
	}
	for _, c := range f.overrides {
		all = append(all, policyOf(c.trial))
	}
	return all
}

func policyOf(tried *trial.Trial) policyPreview {
	one := policyPreview{Kind: tried.Then.GetKind(), Namespace: tried.Then.GetNamespace(), Name: tried.Then.GetName(), Change: tried.ChangeType()}
	if tried.Note != "" {
		one.Notes = []string{tried.Note}
	}
	return one
}

// mistakes are those that the hub would tell of, too, if it was asked.
func mistakes(p policyv1alpha1.Policy) []string {
	spec := p.PropagationSpec()
	_, problems := selector.CompileSelectors(p.GetNamespace(), spec.ResourceSelectors, field.NewPath("spec", "resourceSelectors"))
	_, more := binding.CompilePlacement(&spec.Placement)
	var all []string
	for _, problem := range append(problems, more...) {
		all = append(all, problem.Error())
	}
	return all
}

func (r Reader) previewObject(s *previewSubject, outcome forecast.ObjectForecast, unread []string) objectPreview {
	o := objectPreview{
		AsOf: metav1.NewTime(r.At), APIVersion: s.kind.GroupVersion().String(), Kind: s.kind.Kind, Namespace: s.namespace, Name: s.name,
		ClaimedBy: claim{claims.PolicyDisplayName(outcome.Now), claims.PolicyDisplayName(outcome.Then)}, Clusters: []clusterPreview{},
		Problems: outcome.Problems, Notes: outcome.Notes, Unread: unread,
	}
	if s.trial != nil {
		o.Change = s.trial.ChangeType()
		if s.trial.Note != "" {
			o.Notes = append(o.Notes, s.trial.Note)
		}
	}
	for _, c := range outcome.Clusters {
		o.Clusters = append(o.Clusters, r.previewCluster(c))
	}
	return o
}

func (r Reader) previewCluster(c forecast.ClusterForecast) clusterPreview {
	told := clusterPreview{Name: c.Name, Change: c.ChangeKind(), Reason: c.Reason}
	var was, will forecast.ObjectCopy
	if c.Now != nil {
		was = *c.Now
	}
	if c.Then != nil {
		will = *c.Then
		told.Overrides = will.Overrides
	}
	if was.Replicas > 0 || will.Replicas > 0 {
		told.Replicas = &replicas{was.Replicas, will.Replicas}
	}
	if told.Change == forecast.Changed {
		told.other = was.Replicas == will.Replicas || was.Object == nil || differsOtherwise(was.Object, will.Object)
	}
	if r.Diff {
		told.Diff = unifiedDiff(c)
	}
	return told
}

// Items returns what there is to say in the form that scripts read: the policies
// and then the objects.
func (p *Preview) Items() []any {
	items := make([]any, 0, len(p.policies)+len(p.objects))
	for _, one := range p.policies {
		items = append(items, one)
	}
	for _, one := range p.objects {
		items = append(items, one)
	}
	return items
}

// CheckProblems is an error if something that is asked for would not happen.
func (p *Preview) CheckProblems() error {
	for _, one := range p.policies {
		if len(one.Problems) > 0 {
			return exit.Next(fmt.Errorf("%s is invalid", qualifiedName(one.Kind, one.Namespace, one.Name)), "Fix the fields in the file.")
		}
	}
	for _, o := range p.objects {
		if len(o.Problems) > 0 {
			return exit.Next(errors.New("not everything that was requested would happen"), "See the notes on each object.")
		}
	}
	return nil
}

func qualifiedName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}
