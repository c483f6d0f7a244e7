// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret/expression"
)

const (
	// ExpressionCostMax is what all expressions of a request may cost together for
	// all clusters, in the cost units of CEL.
	ExpressionCostMax = 50 * expression.CostMax
	// clusterVariable is what expressions call the cluster that they are about.
	clusterVariable = "managedCluster"
)

// environment makes what expressions are compiled with once, as it takes
// milliseconds, and only if there is a request that needs it. It never changes.
var environment = sync.OnceValues(func() (*expression.Environment, error) {
	return expression.NewEnvironment(
		cel.Variable(clusterVariable, cel.DynType),
		cel.Function("scores", cel.MemberOverload("cluster_scores", []*cel.Type{cel.DynType, cel.StringType}, cel.ListType(cel.DynType),
			cel.BinaryBinding(addOnScores))),
	)
})

// celProgram is a compiled expression, and where it stands.
type celProgram struct {
	path *field.Path
	text string
	cel  *expression.Program
}

func compileExpressions(texts []string, path *field.Path) ([]celProgram, field.ErrorList) {
	var programs []celProgram
	var problems field.ErrorList
	for n, text := range texts {
		at := path.Index(n)
		env, err := environment()
		if err != nil {
			return nil, field.ErrorList{field.InternalError(at, err)}
		}
		compiled, err := env.CompileExpression(text, cel.BoolType)
		switch {
		case err == nil:
			programs = append(programs, celProgram{path: at, text: text, cel: compiled})
		case errors.As(err, new(*expression.UserError)):
			problems = append(problems, field.Invalid(at, text, err.Error()))
		default:
			problems = append(problems, field.InternalError(at, err))
		}
	}
	return programs, problems
}

// evaluatesTrue reports whether an expression is true of a cluster. It is not if it fails;
// the round remembers the first failure.
func (p celProgram) evaluatesTrue(now *schedulingCycle, c *view.Cluster) bool {
	if now.cost > ExpressionCostMax {
		now.markExhausted(p.path)
		return false
	}
	fields, err := c.FieldTree()
	if err != nil {
		now.recordProblem(p.path, fmt.Errorf("cluster %s: %w", c.Name, err))
		return false
	}
	seen := clusterSubject{Mapper: types.DefaultTypeAdapter.NativeToValue(fields).(traits.Mapper), now: now, cluster: c}
	end := now.observer.beginPlugin(ExpressionPlugin, "")
	value, cost, err := p.cel.EvaluateProgram(context.Background(), map[string]any{clusterVariable: seen}) // bounded by its cost
	end()
	now.cost += cost
	if err != nil {
		now.recordProblem(p.path, fmt.Errorf("cluster %s: %w", c.Name, err))
		return false
	}
	return value == types.True
}

// clusterSubject is a cluster as expressions see it: the fields of its ManagedCluster,
// and its scores.
type clusterSubject struct {
	traits.Mapper

	now     *schedulingCycle
	cluster *view.Cluster
}

// addOnScores is the function of expressions that returns what an add-on thinks of a
// cluster: a list of name and value, without scores that have expired.
func addOnScores(receiver, resource ref.Val) ref.Val {
	s, isCluster := receiver.(clusterSubject)
	name, isText := resource.(types.String)
	if !isCluster || !isText {
		return types.MaybeNoSuchOverloadErr(receiver)
	}
	var names []view.ScoreName
	for key, score := range s.cluster.Scores {
		if key.Resource == string(name) && s.now.isScoreValid(score) {
			names = append(names, key)
		}
	}
	slices.SortFunc(names, func(a, b view.ScoreName) int { return strings.Compare(a.Score, b.Score) })
	list := make([]any, 0, len(names))
	for _, key := range names {
		list = append(list, map[string]any{"name": key.Score, "value": int64(s.cluster.Scores[key].Value)})
	}
	return types.DefaultTypeAdapter.NativeToValue(list)
}
