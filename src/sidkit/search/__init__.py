"""OneSearch: shops and their logs, alignment, BART, ranking, evaluation."""
